package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	_ "unsafe" // for linkname

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/client-go/scale"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/controller/disruption"
	podstorage "k8s.io/kubernetes/pkg/registry/core/pod/storage"
	testingclock "k8s.io/utils/clock/testing"
)

//go:linkname syncBudget k8s.io/kubernetes/pkg/controller/disruption.(*DisruptionController).sync
func syncBudget(dc *disruption.DisruptionController, ctx context.Context, key string) error

//go:linkname newEvictionStorage k8s.io/kubernetes/pkg/registry/core/pod/storage.newEvictionStorage
func newEvictionStorage(store rest.StandardStorage, budgets policyclient.PodDisruptionBudgetsGetter) *podstorage.EvictionREST

type kind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Scale      bool   `json:"scale"`
}

// builtIn are the kinds that the API server itself has.
var builtIn = []kind{
	{"apps/v1", "Deployment", true},
	{"apps/v1", "ReplicaSet", true},
	{"apps/v1", "StatefulSet", true},
	{"v1", "ReplicationController", true},
	{"apps/v1", "DaemonSet", false},
	{"batch/v1", "Job", false},
	{"v1", "Node", false},
}

type disruptionRequest struct {
	Now         metav1.Time                    `json:"now"`
	Budgets     []policyv1.PodDisruptionBudget `json:"budgets"`
	Pods        []v1.Pod                       `json:"pods"`
	Controllers []map[string]any               `json:"controllers"`
	Kinds       []kind                         `json:"kinds"`
	Evict       string                         `json:"evict"`
}

// scales are the scale subresources of the controllers of a request.
type scales struct {
	namespace string
	found     map[string]*autoscalingv1.Scale
}

func (s scales) Scales(namespace string) scale.ScaleInterface {
	return scales{namespace, s.found}
}

func (s scales) Get(_ context.Context, resource schema.GroupResource, name string, _ metav1.GetOptions) (*autoscalingv1.Scale, error) {
	if found, ok := s.found[resource.String()+"/"+s.namespace+"/"+name]; ok {
		return found, nil
	}
	return nil, apierrors.NewNotFound(resource, name)
}

func (s scales) Update(context.Context, schema.GroupResource, *autoscalingv1.Scale, metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	panic("not used")
}

func (s scales) Patch(context.Context, schema.GroupVersionResource, string, types.PatchType, []byte, metav1.PatchOptions) (*autoscalingv1.Scale, error) {
	panic("not used")
}

// podStore has one pod.
type podStore struct {
	rest.StandardStorage
	pod *core.Pod
}

func (s *podStore) Get(context.Context, string, *metav1.GetOptions) (runtime.Object, error) {
	return s.pod, nil
}

func (s *podStore) Update(ctx context.Context, _ string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	updated, err := info.UpdatedObject(ctx, s.pod)
	return updated, false, err
}

func (s *podStore) Delete(context.Context, string, rest.ValidateObjectFunc, *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return s.pod, true, nil
}

func replicas(controller map[string]any) int32 {
	if found, ok, _ := unstructured.NestedFloat64(controller, "spec", "replicas"); ok {
		return int32(found)
	}
	return 1
}

func disruptionBudget(line []byte) (answer, error) {
	var r disruptionRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	written := map[string]*policyv1.PodDisruptionBudget{}
	for i := range r.Budgets {
		written[r.Budgets[i].Namespace+"/"+r.Budgets[i].Name] = &r.Budgets[i]
	}
	client := &fake.Clientset{}
	client.AddReactor("update", "poddisruptionbudgets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		budget := action.(clienttesting.UpdateAction).GetObject().(*policyv1.PodDisruptionBudget)
		written[budget.Namespace+"/"+budget.Name] = budget
		return true, budget, nil
	})
	client.AddReactor("list", "poddisruptionbudgets", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &policyv1.PodDisruptionBudgetList{}
		for _, budget := range written {
			list.Items = append(list.Items, *budget)
		}
		return true, list, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	mapper := meta.NewDefaultRESTMapper(nil)
	found := scales{found: map[string]*autoscalingv1.Scale{}}
	resources := map[string]*metav1.APIResourceList{}
	for _, one := range append(append([]kind{}, builtIn...), r.Kinds...) {
		gvk := schema.FromAPIVersionAndKind(one.APIVersion, one.Kind)
		mapper.Add(gvk, meta.RESTScopeNamespace)
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		list := resources[one.APIVersion]
		if list == nil {
			list = &metav1.APIResourceList{GroupVersion: one.APIVersion}
			resources[one.APIVersion] = list
		}
		if one.Scale {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural.Resource + "/scale", Group: "autoscaling", Version: "v1", Kind: "Scale"})
		}
		for _, controller := range r.Controllers {
			u := unstructured.Unstructured{Object: controller}
			if one.Scale && u.GroupVersionKind() == gvk {
				found.found[plural.GroupResource().String()+"/"+u.GetNamespace()+"/"+u.GetName()] = &autoscalingv1.Scale{
					ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID()},
					Spec:       autoscalingv1.ScaleSpec{Replicas: replicas(controller)},
				}
			}
		}
	}
	for _, list := range resources {
		client.Resources = append(client.Resources, list)
	}
	for _, controller := range r.Controllers {
		u := unstructured.Unstructured{Object: controller}
		wanted := replicas(controller)
		about := metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), OwnerReferences: u.GetOwnerReferences(), DeletionTimestamp: u.GetDeletionTimestamp()}
		switch u.GetAPIVersion() + "/" + u.GetKind() {
		case "apps/v1/Deployment":
			factory.Apps().V1().Deployments().Informer().GetIndexer().Add(&appsv1.Deployment{ObjectMeta: about, Spec: appsv1.DeploymentSpec{Replicas: &wanted}})
		case "apps/v1/ReplicaSet":
			factory.Apps().V1().ReplicaSets().Informer().GetIndexer().Add(&appsv1.ReplicaSet{ObjectMeta: about, Spec: appsv1.ReplicaSetSpec{Replicas: &wanted}})
		case "apps/v1/StatefulSet":
			factory.Apps().V1().StatefulSets().Informer().GetIndexer().Add(&appsv1.StatefulSet{ObjectMeta: about, Spec: appsv1.StatefulSetSpec{Replicas: &wanted}})
		case "v1/ReplicationController":
			factory.Core().V1().ReplicationControllers().Informer().GetIndexer().Add(&v1.ReplicationController{ObjectMeta: about, Spec: v1.ReplicationControllerSpec{Replicas: &wanted}})
		}
	}
	var evicted *v1.Pod
	for i := range r.Pods {
		factory.Core().V1().Pods().Informer().GetIndexer().Add(&r.Pods[i])
		if r.Evict != "" && r.Evict == r.Pods[i].Namespace+"/"+r.Pods[i].Name {
			evicted = &r.Pods[i]
		}
	}
	for i := range r.Budgets {
		factory.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer().Add(&r.Budgets[i])
	}
	dc := disruption.NewDisruptionControllerInternal(
		ctx,
		factory.Core().V1().Pods(),
		factory.Policy().V1().PodDisruptionBudgets(),
		factory.Core().V1().ReplicationControllers(),
		factory.Apps().V1().ReplicaSets(),
		factory.Apps().V1().Deployments(),
		factory.Apps().V1().StatefulSets(),
		client,
		mapper,
		found,
		&fakediscovery.FakeDiscovery{Fake: &client.Fake},
		testingclock.NewFakeClock(r.Now.Time),
		2*time.Minute,
	)
	result := answer{}
	statuses := answer{}
	for i := range r.Budgets {
		key := r.Budgets[i].Namespace + "/" + r.Budgets[i].Name
		if err := syncBudget(dc, ctx, key); err != nil {
			return nil, err
		}
		status := written[key].Status
		one := answer{"disruptionsAllowed": status.DisruptionsAllowed}
		condition := meta.FindStatusCondition(status.Conditions, policyv1.DisruptionAllowedCondition)
		if condition != nil {
			one["condition"] = string(condition.Status) + "/" + condition.Reason
		}
		if condition == nil || condition.Reason != policyv1.SyncFailedReason {
			one["currentHealthy"], one["desiredHealthy"], one["expectedPods"] = status.CurrentHealthy, status.DesiredHealthy, status.ExpectedPods
		}
		statuses[key] = one
	}
	result["budgets"] = statuses
	if evicted != nil {
		verdict, err := evict(evicted, client.PolicyV1())
		if err != nil {
			return nil, err
		}
		result["eviction"] = verdict
	}
	return result, nil
}

func evict(pod *v1.Pod, budgets policyclient.PodDisruptionBudgetsGetter) (answer, error) {
	var stored core.Pod
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &stored, nil); err != nil {
		return nil, err
	}
	storage := newEvictionStorage(&podStore{pod: &stored}, budgets)
	ctx := genericapirequest.WithNamespace(context.Background(), pod.Namespace)
	request := &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
	found, err := storage.Create(ctx, pod.Name, request, nil, &metav1.CreateOptions{})
	status, _ := found.(*metav1.Status)
	if refused, ok := err.(apierrors.APIStatus); ok {
		s := refused.Status()
		status = &s
	} else if err != nil {
		return nil, err
	}
	if status.Status == metav1.StatusSuccess {
		return answer{"code": 201}, nil
	}
	verdict := answer{"code": status.Code}
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if !strings.Contains(cause.Message, "failed sync") && strings.HasSuffix(cause.Message, "currently") {
				verdict["message"] = cause.Message
			}
		}
	}
	return verdict, nil
}
