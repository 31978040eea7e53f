// Answers requests about add-ons of managed clusters with OCM's own code: one line of JSON in, one line of JSON out.
//
// It is run by `ops/conformance`, and needs nothing but the Go module proxy. Three controllers run once, in the order in
// which they depend on each other: the agent's on the leases of add-ons, and the hub's on their health and on labels.
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

	coordv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	coordv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	addoninformers "open-cluster-management.io/api/client/addon/informers/externalversions"
	addonlisters "open-cluster-management.io/api/client/addon/listers/addon/v1alpha1"
	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	hubaddon "open-cluster-management.io/ocm/pkg/registration/hub/addon"
	_ "open-cluster-management.io/ocm/pkg/registration/spoke/addon"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
	"open-cluster-management.io/sdk-go/pkg/patcher"
)

// leaseController has the fields of the agent's own type, so that it gets the clock of the request.
type leaseController struct {
	clusterName string
	clock       clock.Clock
	patcher     patcher.Patcher[
		*addonv1alpha1.ManagedClusterAddOn, addonv1alpha1.ManagedClusterAddOnSpec, addonv1alpha1.ManagedClusterAddOnStatus]
	addOnLister           addonlisters.ManagedClusterAddOnLister
	managementLeaseClient coordv1client.CoordinationV1Interface
	spokeLeaseClient      coordv1client.CoordinationV1Interface
}

//go:linkname syncLease open-cluster-management.io/ocm/pkg/registration/spoke/addon.(*managedClusterAddOnLeaseController).sync
func syncLease(c *leaseController, ctx context.Context, syncCtx factory.SyncContext, key string) error

type answer = map[string]any

type request struct {
	Now     metav1.MicroTime                    `json:"now"`
	Cluster clusterv1.ManagedCluster            `json:"cluster"`
	AddOns  []addonv1alpha1.ManagedClusterAddOn `json:"addOns"`
	Leases  []coordv1.Lease                     `json:"leases"`
}

const prefix = "feature.open-cluster-management.io/addon-"

func addOnLabels(line []byte) (answer, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	ctx := context.Background()
	syncCtx := factory.NewSyncContext("conformance")
	defer syncCtx.Queue().ShutDown()
	name := r.Cluster.Name
	kube := &kubefake.Clientset{}
	kube.AddReactor("get", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sought := action.(clienttesting.GetAction).GetName()
		for i := range r.Leases {
			if r.Leases[i].Name == sought && r.Leases[i].Namespace == name {
				return true, &r.Leases[i], nil
			}
		}
		return true, nil, apierrors.NewNotFound(coordv1.Resource("leases"), sought)
	})
	objects := []runtime.Object{}
	for i := range r.AddOns {
		objects = append(objects, &r.AddOns[i])
	}
	addOns := addonfake.NewSimpleClientset(objects...)
	clusters := clusterfake.NewSimpleClientset(&r.Cluster)
	addOnInformer := addoninformers.NewSharedInformerFactory(addOns, 0).Addon().V1alpha1().ManagedClusterAddOns()
	clusterInformer := clusterinformers.NewSharedInformerFactory(clusters, 0).Cluster().V1().ManagedClusters()
	if err := clusterInformer.Informer().GetIndexer().Add(&r.Cluster); err != nil {
		return nil, err
	}
	refresh := func() error {
		list, err := addOns.AddonV1alpha1().ManagedClusterAddOns(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := addOnInformer.Informer().GetIndexer().Add(&list.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := refresh(); err != nil {
		return nil, err
	}
	available := meta.FindStatusCondition(r.Cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	// The agent of a cluster whose lease has expired does not run, nor does that of a cluster that never reported.
	if available != nil && available.Status != metav1.ConditionUnknown {
		agent := &leaseController{
			clusterName: name,
			clock:       testingclock.NewFakeClock(r.Now.Time),
			patcher: patcher.NewPatcher[
				*addonv1alpha1.ManagedClusterAddOn, addonv1alpha1.ManagedClusterAddOnSpec, addonv1alpha1.ManagedClusterAddOnStatus](
				addOns.AddonV1alpha1().ManagedClusterAddOns(name)),
			addOnLister:           addOnInformer.Lister(),
			managementLeaseClient: kube.CoordinationV1(),
			spokeLeaseClient:      kube.CoordinationV1(),
		}
		for i := range r.AddOns {
			if r.AddOns[i].Namespace == name {
				if err := syncLease(agent, ctx, syncCtx, name+"/"+r.AddOns[i].Name); err != nil {
					return nil, err
				}
			}
		}
		if err := refresh(); err != nil {
			return nil, err
		}
	}
	health := hubaddon.NewManagedClusterAddOnHealthCheckController(addOns, addOnInformer, clusterInformer)
	if err := health.Sync(ctx, syncCtx, name); err != nil {
		return nil, err
	}
	if err := refresh(); err != nil {
		return nil, err
	}
	discovery := hubaddon.NewAddOnFeatureDiscoveryController(clusters, clusterInformer, addOnInformer)
	if err := discovery.Sync(ctx, syncCtx, name); err != nil {
		return nil, err
	}
	shown, err := clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	labels := answer{}
	for key, value := range shown.Labels {
		if strings.HasPrefix(key, prefix) {
			labels[key] = value
		}
	}
	return answer{"labels": labels}, nil
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
	if head.Op != "addon_labels" {
		return answer{"error": "unknown op " + head.Op}
	}
	result, err := addOnLabels(line)
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
