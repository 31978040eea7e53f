// Answers requests about the clusters of a ResourceBinding with Karmada's own scheduler: one line of JSON in, one line
// of JSON out.
//
// It is run by `ops/conformance`, and needs nothing but the Go module proxy.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	listers "github.com/karmada-io/karmada/pkg/generated/listers/cluster/v1alpha1"
	snapshots "github.com/karmada-io/karmada/pkg/scheduler/cache"
	"github.com/karmada-io/karmada/pkg/scheduler/core"
	"github.com/karmada-io/karmada/pkg/scheduler/framework"
	"github.com/karmada-io/karmada/pkg/scheduler/framework/plugins"
)

type answer = map[string]any

// Request asks for the clusters of one binding.
type Request struct {
	ID       any                                `json:"id"`
	Op       string                             `json:"op"`
	Clusters []clusterv1alpha1.Cluster          `json:"clusters"`
	Spec     workv1alpha2.ResourceBindingSpec   `json:"spec"`
	Status   workv1alpha2.ResourceBindingStatus `json:"status"`
}

func scheduled(r *Request) answer {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range r.Clusters {
		if err := indexer.Add(&r.Clusters[i]); err != nil {
			return answer{"error": err.Error()}
		}
	}
	clusters := snapshots.NewCache(listers.NewClusterLister(indexer))
	scheduler, err := core.NewGenericScheduler(clusters, plugins.NewInTreeRegistry())
	if err != nil {
		return answer{"error": err.Error()}
	}
	found, err := scheduler.Schedule(context.Background(), &r.Spec, &r.Status, &core.ScheduleAlgorithmOption{})
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		why := answer{}
		for name, result := range unfit.Diagnosis.ClusterToResultMap {
			why[name] = result.AsError().Error()
		}
		return answer{"fits": false, "why": why}
	}
	if err != nil {
		return answer{"fits": true, "unschedulable": err.Error()}
	}
	targets := answer{}
	for _, one := range found.SuggestedClusters {
		targets[one.Name] = one.Replicas
	}
	return answer{"fits": true, "targets": targets}
}

func answered(line []byte) (found answer) {
	var r Request
	defer func() {
		if p := recover(); p != nil {
			found = answer{"error": fmt.Sprint("panic: ", p), "panic": true}
		}
		if r.ID != nil {
			found["id"] = r.ID
		}
	}()
	if err := json.Unmarshal(line, &r); err != nil {
		return answer{"error": err.Error()}
	}
	if r.Op != "karmada_schedule" {
		return answer{"error": "unknown op " + r.Op}
	}
	return scheduled(&r)
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
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
