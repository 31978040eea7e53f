// Answers requests about pods with upstream's own code: one line of JSON in, one line of JSON out.
//
// It is run by `ops/conformance`, and needs nothing but the Go module proxy.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	apipod "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	daemon "k8s.io/kubernetes/pkg/controller/daemon/util"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/util/tolerations"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/extendedresourcetoleration"
)

type answer = map[string]any

// Request asks for one answer. Which fields count depends on the operation.
type Request struct {
	ID      any    `json:"id"`
	Op      string `json:"op"`
	Pod     v1.Pod `json:"pod"`
	Running bool   `json:"running"`
	Daemon  bool   `json:"daemon"`
}

// internal returns the pod with its defaults, as the API server has it before it is stored.
func internal(pod *v1.Pod, isDaemon bool) *core.Pod {
	pod = pod.DeepCopy()
	corev1.SetObjectDefaults_Pod(pod)
	if isDaemon {
		daemon.AddOrUpdateDaemonPodTolerations(&pod.Spec)
	}
	var found core.Pod
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod, &found, nil); err != nil {
		panic(err)
	}
	apipod.DefaultPodLevelResources(&found)
	return &found
}

func external(pod *core.Pod) *v1.Pod {
	var found v1.Pod
	if err := corev1.Convert_core_Pod_To_v1_Pod(pod, &found, nil); err != nil {
		panic(err)
	}
	return &found
}

func requests(r *Request) answer {
	list := resource.PodRequests(external(internal(&r.Pod, false)), resource.PodResourcesOptions{
		UseStatusResources: r.Running,
		InPlacePodLevelResourcesVerticalScalingEnabled: r.Running,
	})
	found := framework.NewResource(list)
	amounts := map[string]int64{
		"cpu": found.MilliCPU, "memory": found.Memory, "ephemeral-storage": found.EphemeralStorage,
	}
	for name, amount := range found.ScalarResources {
		amounts[string(name)] = amount
	}
	for name, amount := range amounts {
		if amount == 0 {
			delete(amounts, name)
		}
	}
	return answer{"requests": amounts}
}

func admitted(r *Request) answer {
	pod := internal(&r.Pod, r.Daemon)
	about := admission.NewAttributesRecord(pod, nil, core.Kind("Pod").WithVersion("v1"), "ns", "p",
		core.Resource("pods").WithVersion("v1"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	seconds := defaulttolerationseconds.NewDefaultTolerationSeconds()
	seconds.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	if err := seconds.Admit(context.Background(), about, nil); err != nil {
		return answer{"error": err.Error()}
	}
	if qos.ComputePodQOS(external(pod)) != v1.PodQOSBestEffort {
		pod.Spec.Tolerations = tolerations.MergeTolerations(pod.Spec.Tolerations, []core.Toleration{
			{Key: v1.TaintNodeMemoryPressure, Operator: core.TolerationOpExists, Effect: core.TaintEffectNoSchedule},
		})
	}
	plugins := admission.NewPlugins()
	extendedresourcetoleration.Register(plugins)
	plugin, err := plugins.NewFromPlugins([]string{extendedresourcetoleration.PluginName}, unconfigured{}, admission.PluginInitializers{}, nil)
	if err != nil {
		return answer{"error": err.Error()}
	}
	if err := plugin.(admission.MutationInterface).Admit(context.Background(), about, nil); err != nil {
		return answer{"error": err.Error()}
	}
	return answer{"tolerations": external(pod).Spec.Tolerations}
}

type unconfigured struct{}

func (unconfigured) ConfigFor(string) (io.Reader, error) { return nil, nil }

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
	switch r.Op {
	case "pod_qos":
		return answer{"qosClass": string(qos.ComputePodQOS(external(internal(&r.Pod, false))))}
	case "pod_requests":
		return requests(&r)
	case "pod_tolerations":
		return admitted(&r)
	}
	return answer{"error": "unknown op " + r.Op}
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
