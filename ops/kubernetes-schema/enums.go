package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// addEnums adds the values that fields may have to what the OpenAPI documents say. A kube-apiserver publishes them, and
// the documents in its repository do not: there they are only in the Go source that it makes its documents from.
func addEnums(kubernetesFolder string, published map[string]openapi) error {
	file := filepath.Join(kubernetesFolder, "pkg/generated/openapi/zz_generated.openapi.go")
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return err
	}
	// schema_k8sio_api_apps_v1_Deployment is the function for io.k8s.api.apps.v1.Deployment.
	byFunction := map[string]openapi{}
	for name, said := range published {
		if rest, is := strings.CutPrefix(name, "io.k8s."); is {
			byFunction["schema_k8sio_"+strings.ReplaceAll(strings.ReplaceAll(rest, ".", "_"), "-", "_")] = said
		}
	}
	for _, one := range parsed.Decls {
		function, is := one.(*ast.FuncDecl)
		if !is || byFunction[function.Name.Name] == nil {
			continue
		}
		properties, _ := byFunction[function.Name.Name]["properties"].(map[string]any)
		ast.Inspect(function, func(at ast.Node) bool {
			pair, is := at.(*ast.KeyValueExpr)
			if !is || name(pair.Key) != "Properties" {
				return true
			}
			for _, property := range pair.Value.(*ast.CompositeLit).Elts {
				field := property.(*ast.KeyValueExpr)
				if said, is := properties[text(field.Key)].(map[string]any); is {
					addEnum(field.Value, said)
				}
			}
			return false
		})
	}
	return nil
}

// addEnum adds the values that are in the literal of a schema, or of what it consists of, to what is said of it.
func addEnum(literal ast.Node, said openapi) {
	ast.Inspect(literal, func(at ast.Node) bool {
		pair, is := at.(*ast.KeyValueExpr)
		if !is {
			return true
		}
		switch name(pair.Key) {
		case "Items", "AdditionalProperties":
			within := strings.ToLower(name(pair.Key)[:1]) + name(pair.Key)[1:]
			if inner, is := said[within].(map[string]any); is {
				addEnum(pair.Value, inner)
			}
			return false
		case "Enum":
			values := []any{}
			for _, value := range pair.Value.(*ast.CompositeLit).Elts {
				values = append(values, text(value))
			}
			said["enum"] = values
			return false
		}
		return true
	})
}

func name(of ast.Expr) string {
	if found, is := of.(*ast.Ident); is {
		return found.Name
	}
	return ""
}

func text(of ast.Expr) string {
	found, is := of.(*ast.BasicLit)
	if !is {
		return ""
	}
	value, err := strconv.Unquote(found.Value)
	check(err)
	return value
}
