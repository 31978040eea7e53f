package main

import (
	"context"
	"encoding/json"
	"time"
	_ "unsafe" // for linkname

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/kubernetes/pkg/controller/daemon"
	testingclock "k8s.io/utils/clock/testing"
)

//go:linkname updateDaemonSetStatus k8s.io/kubernetes/pkg/controller/daemon.(*DaemonSetsController).updateDaemonSetStatus
func updateDaemonSetStatus(dsc *daemon.DaemonSetsController, ctx context.Context, ds *appsv1.DaemonSet, nodeList []*v1.Node, hash string, updateObservedGen bool) error

type daemonRequest struct {
	Now       metav1.Time      `json:"now"`
	DaemonSet appsv1.DaemonSet `json:"daemonSet"`
	Nodes     []v1.Node        `json:"nodes"`
	Pods      []v1.Pod         `json:"pods"`
	Hash      string           `json:"hash"`
}

func daemonSetStatus(line []byte) (answer, error) {
	var r daemonRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := &fake.Clientset{}
	set := &r.DaemonSet
	client.AddReactor("get", "daemonsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, set, nil
	})
	client.AddReactor("update", "daemonsets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		set = action.(clienttesting.UpdateAction).GetObject().(*appsv1.DaemonSet)
		return true, set, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	backoff := flowcontrol.NewFakeBackOff(time.Second, time.Minute, testingclock.NewFakeClock(r.Now.Time))
	dsc, err := daemon.NewDaemonSetsController(
		ctx,
		factory.Apps().V1().DaemonSets(),
		factory.Apps().V1().ControllerRevisions(),
		factory.Core().V1().Pods(),
		factory.Core().V1().Nodes(),
		client,
		backoff,
	)
	if err != nil {
		return nil, err
	}
	for i := range r.Pods {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(&r.Pods[i]); err != nil {
			return nil, err
		}
	}
	nodes := []*v1.Node{}
	for i := range r.Nodes {
		nodes = append(nodes, &r.Nodes[i])
	}
	if err := updateDaemonSetStatus(dsc, ctx, set, nodes, r.Hash, true); err != nil {
		return nil, err
	}
	status := set.Status
	return answer{
		"desiredNumberScheduled": status.DesiredNumberScheduled,
		"currentNumberScheduled": status.CurrentNumberScheduled,
		"numberMisscheduled":     status.NumberMisscheduled,
		"numberReady":            status.NumberReady,
		"updatedNumberScheduled": status.UpdatedNumberScheduled,
		"numberAvailable":        status.NumberAvailable,
		"numberUnavailable":      status.NumberUnavailable,
	}, nil
}
