package main

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

const meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// manifests of custom resources, by module. What comes first counts.
func manifests() []string {
	patterns := []string{
		folder(ocm) + "/*/*/*.crd.yaml",
		folder(karmada) + "/charts/karmada/_crds/bases/*/*.yaml",
		folder(openshift) + "/machine/v1beta1/zz_generated.crd-manifests/*machinesets-Default.crd.yaml",
		folder(ocmBefore) + "/*/*/*.crd.yaml",
		folder(ocmPlacements) + "/*/*/*placements.crd.yaml",
	}
	found := []string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		check(err)
		found = append(found, files...)
	}
	return found
}

// The custom resources that Moorage serves.
var served = map[string]bool{
	"machine.openshift.io/MachineSet":                             true,
	"policy.karmada.io/ClusterTaintPolicy":                        true,
	"policy.karmada.io/PropagationPolicy":                         true,
	"policy.karmada.io/ClusterPropagationPolicy":                  true,
	"work.karmada.io/ResourceBinding":                             true,
	"work.karmada.io/ClusterResourceBinding":                      true,
	"cluster.open-cluster-management.io/ManagedCluster":           true,
	"cluster.open-cluster-management.io/ManagedClusterSet":        true,
	"cluster.open-cluster-management.io/ManagedClusterSetBinding": true,
	"cluster.open-cluster-management.io/Placement":                true,
	"cluster.open-cluster-management.io/PlacementDecision":        true,
	"cluster.open-cluster-management.io/AddOnPlacementScore":      true,
	"addon.open-cluster-management.io/ManagedClusterAddOn":        true,
}

type definition struct {
	Kind string
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct{ OpenAPIV3Schema openapi }
		}
	}
}

func customTypes() (document, error) {
	kinds := map[string]any{}
	for _, file := range manifests() {
		text, err := os.ReadFile(file)
		if err != nil {
			return document{}, err
		}
		for _, part := range strings.Split(string(text), "\n---") {
			var read definition
			if yaml.Unmarshal([]byte(part), &read) != nil || read.Kind != "CustomResourceDefinition" {
				continue
			}
			if !served[read.Spec.Group+"/"+read.Spec.Names.Kind] {
				continue
			}
			for _, version := range read.Spec.Versions {
				name := read.Spec.Group + "/" + version.Name + "/" + read.Spec.Names.Kind
				if _, done := kinds[name]; done || version.Schema.OpenAPIV3Schema == nil {
					continue
				}
				made := fromOpenAPI(version.Schema.OpenAPIV3Schema, nil)
				made["fields"].(node)["metadata"] = node{"ref": meta}
				kinds[name] = made
			}
		}
	}
	return document{kinds, map[string]node{}}, nil
}

// fromOpenAPI is the node of a schema of an OpenAPI document.
func fromOpenAPI(said openapi, refer func(string) string) node {
	made := node{}
	if refer == nil {
		common(made, said)
	} else { // an aggregated API has Go types
		builtIn(made, said)
	}
	if reference, is := said["$ref"].(string); is {
		made["ref"] = refer(reference)
		return made
	}
	properties, _ := said["properties"].(map[string]any)
	additional, isMap := said["additionalProperties"].(map[string]any)
	if additional, is := said["additionalProperties"].(bool); is && additional {
		made["keeps_unknown"] = true
	}
	if said["x-kubernetes-preserve-unknown-fields"] == true || said["x-kubernetes-embedded-resource"] == true {
		made["keeps_unknown"] = true
	}
	if format := said["format"]; format != nil {
		made["format"] = format
	}
	constraints := node{}
	for _, name := range []string{"pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"} {
		if value := said[name]; value != nil {
			constraints[name] = value
		}
	}
	if len(constraints) > 0 {
		made["constraints"] = constraints
	}
	switch {
	case said["x-kubernetes-int-or-string"] == true:
		made["form"] = "int-or-string"
	case said["type"] == "array":
		made["form"] = "list"
		items, _ := said["items"].(map[string]any)
		made["items"] = fromOpenAPI(items, refer)
	case isMap && properties == nil:
		made["form"] = "map"
		made["items"] = fromOpenAPI(additional, refer)
	case said["type"] == "object":
		made["form"] = "struct"
		fields := node{}
		required := map[string]bool{}
		for _, one := range list(said["required"]) {
			required[one.(string)] = true
		}
		for name, property := range properties {
			one := fromOpenAPI(property.(map[string]any), refer)
			if required[name] {
				one["required"] = true
			}
			fields[name] = one
		}
		made["fields"] = fields
	case said["type"] == "string" && said["format"] == "date-time":
		made["form"] = "time"
	case said["type"] == nil:
		made["form"] = "any"
	default:
		made["form"] = said["type"]
	}
	if keys := said["x-kubernetes-patch-merge-key"]; keys != nil {
		made["merge_key"] = keys
	}
	if strategy, is := said["x-kubernetes-patch-strategy"].(string); is {
		made["patch_strategies"] = strings.Split(strategy, ",")
	}
	return made
}
