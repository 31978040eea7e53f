// Answers requests about patches with upstream's own code: one line of JSON in, one line of JSON out.
//
// It is run by hand, by `ops/patching-conformance`, and needs nothing but the Go module proxy.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request asks for one answer. Which fields count depends on the operation.
type Request struct {
	Op          string          `json:"op"`
	Group       string          `json:"group"`
	Version     string          `json:"version"`
	Kind        string          `json:"kind"`
	Subresource string          `json:"subresource"`
	Document    json.RawMessage `json:"document"`
	Original    json.RawMessage `json:"original"`
	Modified    json.RawMessage `json:"modified"`
	Patch       json.RawMessage `json:"patch"`
	Manager     string          `json:"manager"`
	Force       bool            `json:"force"`
	Reset       [][]string      `json:"reset"`
	Models      json.RawMessage `json:"models"`
}

// Answer is the result, or the error with the code and causes that an API server would answer with.
type Answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Code   int             `json:"code,omitempty"`
	Causes []any           `json:"causes,omitempty"`
}

func (r *Request) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

func (r *Request) new() (runtime.Object, error) { return scheme.Scheme.New(r.gvk()) }

// typed returns a document as the kind's own type.
func (r *Request) typed(document []byte) (runtime.Object, error) {
	object, err := r.new()
	if err != nil {
		return nil, err
	}
	if len(document) == 0 || string(document) == "null" {
		return object, nil
	}
	if err := json.Unmarshal(document, object); err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(r.gvk())
	return object, nil
}

func (r *Request) answer() (json.RawMessage, error) {
	switch r.Op {
	case "typed":
		object, err := r.typed(r.Document)
		if err != nil {
			return nil, err
		}
		return json.Marshal(object)
	case "json":
		patch, err := jsonpatch.DecodePatch(r.Patch)
		if err != nil {
			return nil, err
		}
		return patch.Apply(r.Document)
	case "merge":
		return jsonpatch.MergePatch(r.Document, r.Patch)
	case "strategic":
		return r.strategic()
	case "merge_two_way":
		return jsonpatch.CreateMergePatch(r.Original, r.Modified)
	case "update", "apply":
		return r.managed()
	}
	return nil, fmt.Errorf("unknown operation %q", r.Op)
}

func (r *Request) strategic() (json.RawMessage, error) {
	object, err := r.new()
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatch(r.Document, r.Patch, object)
}

func safely(r *Request) (answer Answer) {
	defer func() {
		if problem := recover(); problem != nil {
			answer = Answer{Error: fmt.Sprintf("panic: %v", problem), Code: 500}
		}
	}()
	result, err := r.answer()
	if err != nil {
		return refused(err)
	}
	return Answer{Result: result}
}

func main() {
	started = time.Now()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		request := &Request{}
		if err := json.Unmarshal(lines.Bytes(), request); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		line, err := json.Marshal(safely(request))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Write(append(line, '\n'))
		out.Flush()
	}
}
