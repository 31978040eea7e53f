// Answers requests about devices with upstream's own code: one line of JSON in, one line of JSON out.
//
// It is run by `ops/conformance`, and needs nothing but the Go module proxy.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/dynamic-resource-allocation/structured"

	devicetainteviction "upstream-devices/evictions"
)

type classes map[string]*resourceapi.DeviceClass

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if k, ok := c[name]; ok {
		return k, nil
	}
	return nil, fmt.Errorf("deviceclass.resource.k8s.io %q not found", name)
}

func (c classes) List() ([]*resourceapi.DeviceClass, error) {
	var out []*resourceapi.DeviceClass
	for _, k := range c {
		out = append(out, k)
	}
	return out, nil
}

type request struct {
	ID         any                            `json:"id"`
	Op         string                         `json:"op"`
	Expression string                         `json:"expression"`
	Device     *resourceapi.Device            `json:"device"`
	Driver     string                         `json:"driver"`
	Slices     []*resourceapi.ResourceSlice   `json:"slices"`
	Classes    []*resourceapi.DeviceClass     `json:"classes"`
	Claims     []*resourceapi.ResourceClaim   `json:"claims"`
	Rules      []*resourceapi.DeviceTaintRule `json:"rules"`
	Pods       []*v1.Pod                      `json:"pods"`
	Node       *v1.Node                       `json:"node"`
	Allocated  [][3]string                    `json:"allocated"`
	Evicted    map[string]int64               `json:"evicted"`
	Toleration *resourceapi.DeviceToleration  `json:"toleration"`
	Taint      *resourceapi.DeviceTaint       `json:"taint"`
}

var celFeatures = dracel.Features{EnableConsumableCapacity: true}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<24), 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	cache := dracel.NewCache(1000, celFeatures)
	ctx := context.Background()
	for in.Scan() {
		var r request
		answer := map[string]any{}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			answer["error"] = err.Error()
			out.Encode(answer)
			continue
		}
		if r.ID != nil {
			answer["id"] = r.ID
		}
		func() {
			defer func() {
				if p := recover(); p != nil {
					answer["error"], answer["panic"] = fmt.Sprint("panic: ", p), true
				}
			}()
			switch r.Op {
			case "device_tolerates":
				answer["tolerates"] = resourceclaim.ToleratesTaint(*r.Toleration, *r.Taint)
			case "device_cel":
				c := dracel.GetCompiler(celFeatures).CompileCELExpression(r.Expression, dracel.Options{})
				if c.Error != nil {
					answer["compileError"] = c.Error.Detail
					return
				}
				m, details, err := c.DeviceMatches(ctx, dracel.Device{Driver: r.Driver, Attributes: r.Device.Attributes, Capacity: r.Device.Capacity, AllowMultipleAllocations: r.Device.AllowMultipleAllocations})
				answer["matches"] = m
				if details != nil && details.ActualCost() != nil {
					answer["cost"] = *details.ActualCost()
				}
				if err != nil {
					answer["error"] = err.Error()
				}
			case "device_allocate":
				cs := classes{}
				for _, c := range r.Classes {
					cs[c.Name] = c
				}
				allocated := sets.New[structured.DeviceID]()
				for _, a := range r.Allocated {
					allocated.Insert(structured.MakeDeviceID(a[0], a[1], a[2]))
				}
				a, err := structured.NewAllocator(ctx, structured.Features{AdminAccess: true, PrioritizedList: true, PartitionableDevices: true, DeviceTaints: true}, structured.AllocatedState{AllocatedDevices: allocated}, cs, r.Slices, cache)
				if err != nil {
					answer["error"] = err.Error()
					return
				}
				res, err := a.Allocate(ctx, r.Node, r.Claims)
				if err != nil {
					answer["error"] = err.Error()
					return
				}
				for i := range res {
					res[i].Devices.Config = nil // what drivers are told beside
				}
				answer["result"] = res
			case "device_evict":
				pods, conds, err := devicetainteviction.Evaluate(r.Slices, r.Rules, r.Claims, r.Pods, r.Evicted)
				if err != nil {
					answer["error"] = err.Error()
					return
				}
				answer["pods"] = pods
				answer["conditions"] = conds
			default:
				answer["error"] = "unknown op " + r.Op
			}
		}()
		out.Encode(answer)
	}
}
