// Answers requests about a pod and a fleet with kube-scheduler's own plugins: one line of JSON in, one line of JSON out.
//
// It is run by `ops/conformance`, and needs nothing but the Go module proxy. Of VolumeBinding it has the comparison of
// bound volumes with nodes alone, because the plugin waits for informers.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	_ "unsafe" // for linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	volumehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conv "k8s.io/kubernetes/pkg/apis/core/v1"
	registrypod "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone"
	fwruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

//go:linkname podHasPVCs k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding.(*VolumeBinding).podHasPVCs
func podHasPVCs(pl *volumebinding.VolumeBinding, pod *v1.Pod) (bool, error)

type m = map[string]any

type request struct {
	Op         string                     `json:"op"`
	ID         any                        `json:"id"`
	Pod        v1.Pod                     `json:"pod"`
	Pods       []v1.Pod                   `json:"pods"`
	Nodes      []v1.Node                  `json:"nodes"`
	Namespaces []v1.Namespace             `json:"namespaces"`
	Claims     []v1.PersistentVolumeClaim `json:"claims"`
	Volumes    []v1.PersistentVolume      `json:"volumes"`
}

// admitted returns a pod as the API server stores it: with its defaults, and with the values of its labels in terms.
func admitted(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	node, deleted := p.Spec.NodeName, p.DeletionTimestamp
	corev1conv.SetObjectDefaults_Pod(p)
	var c core.Pod
	if err := corev1conv.Convert_v1_Pod_To_core_Pod(p, &c, nil); err != nil {
		panic(err)
	}
	registrypod.Strategy.PrepareForCreate(context.Background(), &c)
	var back v1.Pod
	if err := corev1conv.Convert_core_Pod_To_v1_Pod(&c, &back, nil); err != nil {
		panic(err)
	}
	back.Spec.NodeName, back.DeletionTimestamp = node, deleted
	return &back
}

func answer(line []byte) (out m) {
	out = m{}
	defer func() {
		if p := recover(); p != nil {
			out = m{"error": fmt.Sprint("panic: ", p)}
		}
	}()
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return m{"error": err.Error()}
	}
	if r.Op != "pod_schedule" {
		return m{"error": "unknown op " + r.Op}
	}
	ctx := context.Background()
	pods := []*v1.Pod{}
	for i := range r.Pods {
		pods = append(pods, admitted(&r.Pods[i]))
	}
	nodes := []*v1.Node{}
	for i := range r.Nodes {
		nodes = append(nodes, &r.Nodes[i])
	}
	pod := admitted(&r.Pod)
	snapshot := cache.NewSnapshot(pods, nodes)
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	for i := range r.Namespaces {
		_ = factory.Core().V1().Namespaces().Informer().GetIndexer().Add(&r.Namespaces[i])
	}
	claims := map[string]*v1.PersistentVolumeClaim{}
	for i := range r.Claims {
		_ = factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(&r.Claims[i])
		claims[r.Claims[i].Namespace+"/"+r.Claims[i].Name] = &r.Claims[i]
	}
	volumes := map[string]*v1.PersistentVolume{}
	for i := range r.Volumes {
		_ = factory.Core().V1().PersistentVolumes().Informer().GetIndexer().Add(&r.Volumes[i])
		volumes[r.Volumes[i].Name] = &r.Volumes[i]
	}
	fh, err := fwruntime.NewFramework(ctx, nil, nil, fwruntime.WithSnapshotSharedLister(snapshot), fwruntime.WithInformerFactory(factory), fwruntime.WithClientSet(client))
	if err != nil {
		return m{"error": err.Error()}
	}
	fts := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	type made struct {
		name string
		new  func() (fwk.Plugin, error)
	}
	wrap := func(f func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error), args runtime.Object) func() (fwk.Plugin, error) {
		return func() (fwk.Plugin, error) { return f(ctx, args, fh, fts) }
	}
	list := []made{
		{"NodeUnschedulable", wrap(nodeunschedulable.New, nil)},
		{"TaintToleration", wrap(tainttoleration.New, nil)},
		{"NodeAffinity", wrap(nodeaffinity.New, &config.NodeAffinityArgs{})},
		{"NodePorts", wrap(nodeports.New, nil)},
		{"NodeResourcesFit", wrap(noderesources.NewFit, &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{Type: config.LeastAllocated, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}}})},
		{"VolumeZone", wrap(volumezone.New, nil)},
		{"PodTopologySpread", wrap(podtopologyspread.New, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting})},
		{"InterPodAffinity", wrap(interpodaffinity.New, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1})},
	}
	infos, _ := snapshot.NodeInfos().List()
	verdicts := map[string]m{}
	for _, n := range infos {
		verdicts[n.Node().Name] = m{}
	}
	passed := map[string]bool{}
	for _, n := range infos {
		passed[n.Node().Name] = true
	}
	scorers := map[string]fwk.Plugin{}
	for _, one := range list {
		pl, err := one.new()
		if err != nil {
			return m{"error": one.name + ": " + err.Error()}
		}
		if _, ok := pl.(fwk.ScorePlugin); ok {
			scorers[one.name] = pl
		}
		state := framework.NewCycleState()
		if pre, ok := pl.(fwk.PreFilterPlugin); ok {
			_, status := pre.PreFilter(ctx, state, pod, infos)
			if status.IsSkip() {
				continue
			}
			if !status.IsSuccess() {
				for _, n := range infos {
					verdicts[n.Node().Name][one.name] = status.Reasons()
					passed[n.Node().Name] = false
				}
				continue
			}
		}
		for _, n := range infos {
			status := pl.(fwk.FilterPlugin).Filter(ctx, state, pod, n)
			if !status.IsSuccess() {
				verdicts[n.Node().Name][one.name] = status.Reasons()
				passed[n.Node().Name] = false
			}
		}
	}
	if _, err := podHasPVCs(&volumebinding.VolumeBinding{PVCLister: factory.Core().V1().PersistentVolumeClaims().Lister()}, pod); err != nil && strings.HasSuffix(err.Error(), "is being deleted") {
		for _, n := range infos {
			verdicts[n.Node().Name]["VolumeBinding"] = []string{err.Error()}
			passed[n.Node().Name] = false
		}
	}
	for _, n := range infos {
		if verdicts[n.Node().Name]["VolumeBinding"] != nil {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			claim := claims[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
			if claim == nil || claim.Spec.VolumeName == "" {
				continue
			}
			volume := volumes[claim.Spec.VolumeName]
			if volume == nil {
				continue
			}
			if err := volumehelpers.CheckNodeAffinity(volume, n.Node().Labels); err != nil {
				verdicts[n.Node().Name]["VolumeBinding"] = []string{"node(s) didn't match PersistentVolume's node affinity"}
				passed[n.Node().Name] = false
			}
		}
	}
	feasible := []fwk.NodeInfo{}
	for _, n := range infos {
		if passed[n.Node().Name] {
			feasible = append(feasible, n)
		}
	}
	scores := map[string]map[string]int64{}
	for _, n := range feasible {
		scores[n.Node().Name] = map[string]int64{}
	}
	for name, pl := range scorers {
		if len(feasible) == 0 {
			continue
		}
		state := framework.NewCycleState()
		skip := false
		if pre, ok := pl.(fwk.PreScorePlugin); ok {
			status := pre.PreScore(ctx, state, pod, feasible)
			if status.IsSkip() {
				skip = true
			} else if !status.IsSuccess() {
				return m{"error": name + ": " + status.Message()}
			}
		}
		given := fwk.NodeScoreList{}
		for _, n := range feasible {
			if skip {
				given = append(given, fwk.NodeScore{Name: n.Node().Name})
				continue
			}
			score, status := pl.(fwk.ScorePlugin).Score(ctx, state, pod, n)
			if !status.IsSuccess() {
				return m{"error": name + ": " + status.Message()}
			}
			given = append(given, fwk.NodeScore{Name: n.Node().Name, Score: score})
		}
		if ext := pl.(fwk.ScorePlugin).ScoreExtensions(); ext != nil && !skip {
			if status := ext.NormalizeScore(ctx, state, pod, given); !status.IsSuccess() {
				return m{"error": name + ": " + status.Message()}
			}
		}
		for _, one := range given {
			scores[one.Name][name] = one.Score
		}
	}
	result := m{}
	for name, v := range verdicts {
		one := m{"fits": passed[name], "reasons": v}
		if passed[name] {
			one["scores"] = scores[name]
		}
		result[name] = one
	}
	out["nodes"] = result
	if r.ID != nil {
		out["id"] = r.ID
	}
	return out
}

func main() {
	metrics.Register()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			text, _ := json.Marshal(answer(line))
			out.Write(append(text, '\n'))
		}
		if err != nil {
			return
		}
	}
}
