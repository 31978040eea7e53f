// Answers requests about rollouts over placement decisions with OCM's own code: one line of JSON in, one line of JSON
// out.
//
// It needs the packages of the sdk, which a checkout of it has in `vendor`:
//
//	git clone https://github.com/open-cluster-management-io/sdk-go
//	mkdir sdk-go/rollouts && cp ops/rollout-vectors/main.go sdk-go/rollouts/
//	(cd sdk-go && go build -mod=vendor -o /tmp/rollouts ./rollouts)
//	MOORAGE_ORACLE=/tmp/rollouts python -m tests.conformance.generate_vectors rollouts
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	testingclock "k8s.io/utils/clock/testing"

	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	rollout "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	decisions "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
)

type answer = map[string]any

type group struct {
	Name     string   `json:"name"`
	Index    int32    `json:"index"`
	Clusters []string `json:"clusters"`
}

type cluster struct {
	Name       string     `json:"name"`
	State      string     `json:"state"`
	GroupName  string     `json:"groupName"`
	GroupIndex int32      `json:"groupIndex"`
	Since      *time.Time `json:"since"`
}

type request struct {
	Now      time.Time                       `json:"now"`
	Strategy clusterv1alpha1.RolloutStrategy `json:"strategy"`
	Groups   []group                         `json:"groups"`
	Clusters []cluster                       `json:"clusters"`
}

var states = []string{"ToApply", "Progressing", "Succeeded", "Failed", "TimeOut", "Skip"}

func stateOf(name string) (rollout.RolloutStatus, error) {
	for i, one := range states {
		if one == name {
			return rollout.RolloutStatus(i), nil
		}
	}
	return 0, fmt.Errorf("unknown state %s", name)
}

func shown(found []rollout.ClusterRolloutStatus) []answer {
	result := []answer{}
	for _, one := range found {
		entry := answer{
			"name": one.ClusterName, "state": states[one.Status],
			"groupName": one.GroupKey.GroupName, "groupIndex": one.GroupKey.GroupIndex,
		}
		if one.RecheckTime != nil {
			entry["recheck"] = one.RecheckTime.UTC().Format("2006-01-02T15:04:05.000000Z")
		}
		result = append(result, entry)
	}
	return result
}

func rolledOut(line []byte) (answer, error) {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	groups := decisions.ClusterGroupsMap{}
	for _, one := range r.Groups {
		groups[decisions.GroupKey{GroupName: one.Name, GroupIndex: one.Index}] = sets.New(one.Clusters...)
	}
	existing := []rollout.ClusterRolloutStatus{}
	for _, one := range r.Clusters {
		state, err := stateOf(one.State)
		if err != nil {
			return nil, err
		}
		status := rollout.ClusterRolloutStatus{
			ClusterName: one.Name, Status: state,
			GroupKey: decisions.GroupKey{GroupName: one.GroupName, GroupIndex: one.GroupIndex},
		}
		if one.Since != nil {
			status.LastTransitionTime = &metav1.Time{Time: *one.Since}
		}
		existing = append(existing, status)
	}
	rollout.RolloutClock = testingclock.NewFakeClock(r.Now)
	tracker := decisions.NewPlacementDecisionClustersTrackerWithGroups(nil, nil, groups)
	handler, err := rollout.NewRolloutHandler[string](tracker, nil)
	if err != nil {
		return nil, err
	}
	_, result, err := handler.GetRolloutCluster(r.Strategy, existing)
	if err != nil {
		return answer{"invalid": true}, nil
	}
	found := answer{
		"rollOut": shown(result.ClustersToRollout), "timedOut": shown(result.ClustersTimeOut),
		"removed": shown(result.ClustersRemoved), "maxFailureBreach": result.MaxFailureBreach,
	}
	if result.RecheckAfter != nil {
		found["recheckAfter"] = result.RecheckAfter.Seconds()
	}
	return found, nil
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
	if head.Op != "ocm_rollout" {
		return answer{"error": "unknown op " + head.Op}
	}
	result, err := rolledOut(line)
	if err != nil {
		return answer{"error": err.Error()}
	}
	return result
}

func main() {
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
