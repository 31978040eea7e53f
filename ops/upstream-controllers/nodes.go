package main

import (
	"context"
	"encoding/json"
	"reflect"
	"time"
	"unsafe"

	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
)

//go:linkname monitorNodeHealth k8s.io/kubernetes/pkg/controller/nodelifecycle.(*Controller).monitorNodeHealth
func monitorNodeHealth(nc *nodelifecycle.Controller, ctx context.Context) error

// podItem has the fields of the controller's own type for a pod that was bound.
type podItem struct {
	namespace string
	name      string
}

//go:linkname processPod k8s.io/kubernetes/pkg/controller/nodelifecycle.(*Controller).processPod
func processPod(nc *nodelifecycle.Controller, ctx context.Context, item podItem)

// step is what is written before the controller looks, at a time.
type step struct {
	Time       metav1.Time        `json:"time"`
	Conditions []v1.NodeCondition `json:"conditions"`
	RenewTime  *metav1.MicroTime  `json:"renewTime"`
	Pods       []v1.Pod           `json:"pods"`
}

type nodeRequest struct {
	Node  v1.Node  `json:"node"`
	Pods  []v1.Pod `json:"pods"`
	Steps []step   `json:"steps"`
}

// setField sets a field that is not exported.
func setField(object any, name string, value any) {
	field := reflect.ValueOf(object).Elem().FieldByName(name)
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func nodePods(line []byte) (answer, error) {
	var r nodeRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := &fake.Clientset{}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Informer().GetIndexer()
	pods := factory.Core().V1().Pods().Informer().GetIndexer()
	leases := factory.Coordination().V1().Leases().Informer().GetIndexer()
	client.AddReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		found, _, _ := nodes.GetByKey(r.Node.Name)
		return true, found.(*v1.Node).DeepCopy(), nil
	})
	client.AddReactor("*", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok {
			found, _, _ := nodes.GetByKey(r.Node.Name)
			return true, found.(*v1.Node), nil
		}
		node := update.GetObject().(*v1.Node).DeepCopy()
		return true, node, nodes.Update(node)
	})
	client.AddReactor("update", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		pod := action.(clienttesting.UpdateAction).GetObject().(*v1.Pod)
		return true, pod, pods.Update(pod)
	})
	client.AddReactor("get", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.GetAction).GetName()
		found, ok, _ := leases.GetByKey(v1.NamespaceNodeLease + "/" + name)
		if !ok {
			return true, nil, apierrors.NewNotFound(coordv1.Resource("leases"), name)
		}
		return true, found.(*coordv1.Lease), nil
	})
	nc, err := nodelifecycle.NewNodeLifecycleController(
		ctx,
		factory.Coordination().V1().Leases(),
		factory.Core().V1().Pods(),
		factory.Core().V1().Nodes(),
		factory.Apps().V1().DaemonSets(),
		client,
		5*time.Second, 60*time.Second, 40*time.Second, 0.1, 0.01, 50, 0.55,
	)
	if err != nil {
		return nil, err
	}
	node := r.Node.DeepCopy()
	if err := nodes.Add(node); err != nil {
		return nil, err
	}
	for i := range r.Pods {
		if err := pods.Add(&r.Pods[i]); err != nil {
			return nil, err
		}
	}
	for _, one := range r.Steps {
		if one.Conditions != nil {
			found, _, _ := nodes.GetByKey(r.Node.Name)
			changed := found.(*v1.Node).DeepCopy()
			changed.Status.Conditions = one.Conditions
			if err := nodes.Update(changed); err != nil {
				return nil, err
			}
		}
		if one.RenewTime != nil {
			lease := &coordv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.Node.Name, Namespace: v1.NamespaceNodeLease}, Spec: coordv1.LeaseSpec{RenewTime: one.RenewTime}}
			if err := leases.Add(lease); err != nil {
				return nil, err
			}
		}
		now := one.Time
		setField(nc, "now", func() metav1.Time { return now })
		// Another node is always ready. If all were lost, the controller would take the fault for its own.
		witness := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "witness of " + r.Node.Name}}
		witness.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: now}}
		if err := nodes.Add(witness); err != nil {
			return nil, err
		}
		for i := range one.Pods {
			pod := &one.Pods[i]
			before, known, _ := pods.Get(pod)
			if err := pods.Add(pod); err != nil {
				return nil, err
			}
			// As in the controller's podUpdated, which its informer would call.
			if pod.Spec.NodeName != "" && (!known || before.(*v1.Pod).Spec.NodeName != pod.Spec.NodeName) {
				processPod(nc, ctx, podItem{pod.Namespace, pod.Name})
			}
		}
		if err := monitorNodeHealth(nc, ctx); err != nil {
			return nil, err
		}
	}
	found, _, _ := nodes.GetByKey(r.Node.Name)
	conditions := answer{}
	for _, condition := range found.(*v1.Node).Status.Conditions {
		conditions[string(condition.Type)] = string(condition.Status)
	}
	ready := answer{}
	for _, item := range pods.List() {
		pod := item.(*v1.Pod)
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodReady {
				ready[pod.Namespace+"/"+pod.Name] = string(condition.Status)
			}
		}
	}
	return answer{"conditions": conditions, "ready": ready}, nil
}
