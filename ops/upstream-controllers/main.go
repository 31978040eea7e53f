// Answers requests about controllers with upstream's own code: one line of JSON in, one line of JSON out.
//
// It is run by `ops/conformance`, and needs nothing but the Go module proxy. The controllers are made as in a
// kube-controller-manager, with stores in memory. Each request fills them and runs one step.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
)

type answer = map[string]any

var operations = map[string]func([]byte) (answer, error){
	"disruption_budget": disruptionBudget,
	"node_pods":         nodePods,
	"daemonset_status":  daemonSetStatus,
}

func answered(line []byte) (found answer) {
	var head struct {
		ID any    `json:"id"`
		Op string `json:"op"`
	}
	defer func() {
		if p := recover(); p != nil {
			found = answer{"error": fmt.Sprint("panic: ", p), "panic": true}
		}
		if head.ID != nil {
			found["id"] = head.ID
		}
	}()
	if err := json.Unmarshal(line, &head); err != nil {
		return answer{"error": err.Error()}
	}
	run, ok := operations[head.Op]
	if !ok {
		return answer{"error": "unknown op " + head.Op}
	}
	result, err := run(line)
	if err != nil {
		return answer{"error": err.Error()}
	}
	return result
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			text, _ := json.Marshal(answered(line))
			out.Write(append(text, '\n'))
		}
		if err != nil {
			return
		}
	}
}
