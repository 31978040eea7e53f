// Package devicetainteviction is upstream's controller (overlay.txt brings its files), whose handlers are called directly.
package devicetainteviction

import (
	"context"
	"encoding/json"
	"sort"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
)

// Leaving is a pod that has to leave its devices.
type Leaving struct {
	Pod     string   `json:"pod"`
	When    string   `json:"when"`
	Reasons []string `json:"reasons"`
}

// Progress is the condition of a rule.
type Progress struct {
	Rule    string `json:"rule"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Evaluate shows the controller some objects, and returns the pods that it would delete and the conditions of the rules.
func Evaluate(slices []*resourceapi.ResourceSlice, rules []*resourceapi.DeviceTaintRule, claims []*resourceapi.ResourceClaim, pods []*v1.Pod, evicted map[string]int64) ([]Leaving, []Progress, error) {
	client := fake.NewClientset()
	var patches [][]byte
	client.PrependReactor("patch", "devicetaintrules", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patches = append(patches, action.(clienttesting.PatchAction).GetPatch())
		return true, &resourceapi.DeviceTaintRule{}, nil
	})
	f := informers.NewSharedInformerFactory(client, 0)
	podInf := f.Core().V1().Pods()
	for _, p := range pods {
		if err := podInf.Informer().GetIndexer().Add(p); err != nil {
			return nil, nil, err
		}
	}
	ruleIndexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, r := range rules {
		ruleIndexer.Add(r)
	}
	tc := &Controller{
		logger:          klog.Background(),
		client:          client,
		name:            "x",
		podInformer:     podInf,
		podLister:       podInf.Lister(),
		ruleLister:      resourcelisters.NewDeviceTaintRuleLister(ruleIndexer),
		deletePodAt:     make(map[tainteviction.NamespacedObject]evictionAndReason),
		allocatedClaims: make(map[types.NamespacedName]allocatedClaim),
		pools:           make(map[poolID]pool),
		evictingRules:   make(map[string]*resourceapi.DeviceTaintRule),
		taintRuleStats:  make(map[types.UID]taintRuleStats),
		evictedPods:     newUIDCache(10),
		workqueue:       &NOPQueue[workItem]{},
	}
	for _, s := range slices {
		tc.handleSliceChange(nil, s)
	}
	for _, r := range rules {
		tc.handleRuleChange(nil, r)
		if n := evicted[r.Name]; n > 0 {
			tc.taintRuleStats[r.UID] = taintRuleStats{numEvictedPods: n}
		}
	}
	for _, c := range claims {
		tc.handleClaimChange(nil, c)
	}
	for _, p := range pods {
		tc.handlePodChange(nil, p)
	}
	out := []Leaving{}
	for ref, e := range tc.deletePodAt {
		o := Leaving{Pod: ref.Namespace + "/" + ref.Name, When: e.when.UTC().Format("2006-01-02T15:04:05Z")}
		for _, r := range e.reason {
			o.Reasons = append(o.Reasons, r.String())
		}
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Pod < out[j].Pod })
	conds := []Progress{}
	for _, r := range rules {
		patches = nil
		if _, err := tc.maybeUpdateRuleStatus(context.Background(), tainteviction.NamespacedObject{NamespacedName: types.NamespacedName{Name: r.Name}, UID: r.UID}); err != nil {
			return nil, nil, err
		}
		for _, p := range patches {
			var doc struct {
				Status struct {
					Conditions []Progress `json:"conditions"`
				} `json:"status"`
			}
			if err := json.Unmarshal(p, &doc); err != nil {
				return nil, nil, err
			}
			for _, c := range doc.Status.Conditions {
				c.Rule = r.Name
				conds = append(conds, c)
			}
		}
	}
	return out, conds, nil
}
