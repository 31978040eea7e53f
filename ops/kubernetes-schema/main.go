// Command kubernetes-schema writes the structure of the kinds of Kubernetes, Karmada and Open Cluster Management that
// Moorage serves: names, forms, values, merge keys and protobuf numbers, and no descriptions.
//
// Built-in types are read by reflection, together with the OpenAPI documents of the same release. Custom resources are
// read from the manifests of their definitions. `make upstream-schemas` runs it; a clone does not need it.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// The releases whose manifests and OpenAPI documents are read. Go types come from those in go.mod, which are of the
// same release of Kubernetes.
const (
	kubernetes = "k8s.io/kubernetes@v1.37.0"
	karmada    = "github.com/karmada-io/karmada@v1.16.0"
	openshift  = "github.com/openshift/api@v0.0.0-20251125174858-5cf710f68a92"
	ocm        = "open-cluster-management.io/api@v1.2.0"
)

// The last releases with v1beta1 of the sets of managed clusters, and with v1alpha1 of placements, which have another
// form there. Moorage shows other old versions as it shows the next newer one.
const (
	ocmBefore     = "open-cluster-management.io/api@v0.11.0"
	ocmPlacements = "open-cluster-management.io/api@v0.8.0"
)

// node is a schema as the data has it. Names are those of Python's `Schema` and `Field`.
type node map[string]any

func main() {
	out := flag.String("out", "", "the folder that the data is written to")
	vectors := flag.String("vectors", "", "the file that pairs of JSON and protobuf are written to")
	flag.Parse()
	if *out != "" {
		native, err := nativeTypes(folder(kubernetes), folder(karmada))
		check(err)
		write(filepath.Join(*out, "native.json"), native)
		custom, err := customTypes()
		check(err)
		write(filepath.Join(*out, "custom.json"), custom)
	}
	if *vectors != "" {
		check(writeVectors(*vectors))
	}
}

// folder downloads a module and returns where it is.
func folder(module string) string {
	answer, err := exec.Command("go", "mod", "download", "-json", module).Output()
	check(err)
	var found struct{ Dir string }
	check(json.Unmarshal(answer, &found))
	return found.Dir
}

// document is a file of data: the kinds, as group/version/kind, and the definitions that they use.
type document struct {
	Kinds       map[string]any
	Definitions map[string]node
}

// write puts every kind and definition on a line of its own, so that differences can be read.
func write(path string, found document) {
	var text strings.Builder
	text.WriteString("{\n\"kinds\": {\n")
	lines(&text, found.Kinds)
	text.WriteString("},\n\"definitions\": {\n")
	lines(&text, found.Definitions)
	text.WriteString("}\n}\n")
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	check(os.WriteFile(path, []byte(text.String()), 0o644))
}

func lines[V any](text *strings.Builder, of map[string]V) {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	for at, name := range names {
		value, err := json.Marshal(of[name])
		check(err)
		comma := ","
		if at == len(names)-1 {
			comma = ""
		}
		fmt.Fprintf(text, "%q: %s%s\n", name, value, comma)
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
