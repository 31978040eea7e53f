// Answers for which managed clusters a CEL expression is true, with OCM's own environment: one line of JSON in, one
// line of JSON out.
//
// It is run by `python -m tests.conformance.expressions`, and needs nothing but the Go module proxy.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"sort"

	"github.com/google/cel-go/cel"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/client-go/tools/cache"
	listers "open-cluster-management.io/api/client/cluster/listers/cluster/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	"open-cluster-management.io/sdk-go/pkg/cel/common"
	"open-cluster-management.io/sdk-go/pkg/cel/library"
)

// Request asks about one expression. Scores are given by cluster, AddOnPlacementScore and name.
type Request struct {
	Expression string                                 `json:"x"`
	Clusters   []clusterv1.ManagedCluster             `json:"clusters"`
	Scores     map[string]map[string]map[string]int32 `json:"scores"`
}

// Answer has the compiler's error, or the clusters by their results, with the costs of the evaluations.
type Answer struct {
	Compile string            `json:"compile,omitempty"`
	Yes     []string          `json:"yes"`
	Errs    map[string]string `json:"errs"`
	Costs   map[string]uint64 `json:"costs"`
}

func main() {
	scores := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	options := []cel.EnvOption{library.ManagedClusterLib(listers.NewAddOnPlacementScoreLister(scores)), library.JsonLib()}
	env, err := cel.NewEnv(append(options, common.BaseEnvOpts...)...)
	if err != nil {
		log.Fatal(err)
	}
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var request Request
		if err := in.Decode(&request); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := scores.Replace(objects(request.Scores), ""); err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(answered(env, request)); err != nil {
			log.Fatal(err)
		}
	}
}

func objects(given map[string]map[string]map[string]int32) []any {
	var found []any
	for cluster, resources := range given {
		for name, values := range resources {
			one := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
			for score, value := range values {
				one.Status.Scores = append(one.Status.Scores, clusterv1alpha1.AddOnPlacementScoreItem{Name: score, Value: value})
			}
			items := one.Status.Scores
			sort.Slice(items, func(i, j int) bool { return items[i].Name < items[j].Name })
			found = append(found, one)
		}
	}
	return found
}

func answered(env *cel.Env, request Request) Answer {
	tree, issues := env.Compile(request.Expression)
	if issues.Err() != nil {
		return Answer{Compile: issues.String()}
	}
	program, err := env.Program(
		tree,
		cel.CostLimit(celconfig.PerCallLimit),
		cel.CostTracking(&common.BaseEnvCostEstimator{CostEstimator: &library.CostEstimator{}}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
	if err != nil {
		return Answer{Compile: err.Error()}
	}
	answer := Answer{Yes: []string{}, Errs: map[string]string{}, Costs: map[string]uint64{}}
	for i := range request.Clusters {
		cluster := &request.Clusters[i]
		object, err := common.ConvertObjectToUnstructured(cluster)
		if err != nil {
			log.Fatal(err)
		}
		value, details, err := program.Eval(map[string]any{"managedCluster": object.Object})
		if cost := details.ActualCost(); cost != nil {
			answer.Costs[cluster.Name] = *cost
		}
		if err != nil {
			answer.Errs[cluster.Name] = err.Error()
		} else if holds, ok := value.Value().(bool); !ok {
			answer.Errs[cluster.Name] = "the result is no bool"
		} else if holds {
			answer.Yes = append(answer.Yes, cluster.Name)
		}
	}
	return answer
}
