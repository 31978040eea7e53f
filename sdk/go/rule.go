// Package moorage is what a probe or a deployer in Go needs of Moorage's contract: the rule of a deployer, the stream
// of decisions, and reports. It needs nothing but the standard library.
package moorage

import "strings"

// Workload names a workload.
type Workload struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster,omitempty"`
}

// Key is Kind/namespace/name.
func (w Workload) Key() string { return inCluster(w.Cluster, w.Kind+"/"+w.Namespace+"/"+w.Name) }

// Target names a node or a cluster.
type Target struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Cluster string `json:"cluster,omitempty"`
}

// Key is Kind/name.
func (t Target) Key() string { return inCluster(t.Cluster, t.Kind+"/"+t.Name) }

// ParseTarget reads Kind/name.
func ParseTarget(key string) Target {
	cluster, rest := cut(key)
	kind, name, _ := strings.Cut(rest, "/")
	return Target{Kind: kind, Name: name, Cluster: cluster}
}

// ParseWorkload reads Kind/namespace/name.
func ParseWorkload(key string) Workload {
	cluster, rest := cut(key)
	parts := strings.SplitN(rest, "/", 3)
	return Workload{Kind: parts[0], Namespace: parts[1], Name: parts[2], Cluster: cluster}
}

func inCluster(cluster, key string) string {
	if cluster == "" {
		return key
	}
	return cluster + ":" + key
}

func cut(key string) (string, string) {
	kind, rest, _ := strings.Cut(key, "/")
	if cluster, kind, found := strings.Cut(kind, ":"); found {
		return cluster, kind + "/" + rest
	}
	return "", key
}

// Binding is the order that a workload is to run on a target.
type Binding struct {
	Workload   Workload `json:"workload"`
	UID        string   `json:"uid"`
	Target     Target   `json:"target"`
	Generation int64    `json:"generation"`
	Revision   int64    `json:"revision"`
	Replicas   int64    `json:"replicas"`
	Suspended  bool     `json:"suspended"` // nothing is to be started or changed for now
	Preserved  bool     `json:"preserved"` // the work stays when the binding ends, unless it was evicted
}

// Eviction is the state of one eviction.
type Eviction struct {
	Workload     Workload  `json:"workload"`
	WorkloadUID  string    `json:"workloadUid"`
	Target       Target    `json:"target"`
	Generation   int64     `json:"generation"`
	State        string    `json:"state"`
	PurgeMode    string    `json:"purgeMode"`
	Deadline     string    `json:"deadline"`
	Reason       string    `json:"reason"`
	Deployer     string    `json:"deployer"` // the source that has to acknowledge it
	Acknowledged *struct{} `json:"acknowledged"`
}

// Running is what runs, with the numbers of the binding for which it was started.
type Running struct {
	Workload   string `json:"workload"`
	Target     string `json:"target"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	Revision   int64  `json:"revision"`
	Replicas   int64  `json:"replicas"`
	Preserved  bool   `json:"preserved"`
}

// Key is the key of its binding.
func (r Running) Key() string { return r.Workload + "|" + r.Target }

// Of is what runs once a binding has been carried out.
func Of(b Binding) Running {
	return Running{b.Workload.Key(), b.Target.Key(), b.UID, b.Generation, b.Revision, b.Replicas, b.Preserved}
}

// Tables are the last records of each key.
type Tables struct {
	Bindings  map[string]Binding
	Evictions map[string]Eviction
}

// NewTables returns empty tables.
func NewTables() *Tables {
	return &Tables{map[string]Binding{}, map[string]Eviction{}}
}

// MustLeave tells whether an eviction means that its binding must not run any more.
func MustLeave(e Eviction) bool {
	switch e.State {
	case "Requested":
		return e.PurgeMode != "Gracefully"
	case "Completed":
		return true
	case "Cancelled":
		return e.Reason == "BindingEnded"
	}
	return false
}

// evictionOf is the eviction of exactly this binding.
func (t *Tables) evictionOf(key, uid string, generation int64) (Eviction, bool) {
	e, found := t.Evictions[key+"|"+itoa(generation)]
	return e, found && (e.WorkloadUID == "" || e.WorkloadUID == uid)
}

// Wanted is the binding of a key if the workload is to run.
func (t *Tables) Wanted(key string) (Binding, bool) {
	b, found := t.Bindings[key]
	if !found {
		return b, false
	}
	if e, evicted := t.evictionOf(key, b.UID, b.Generation); evicted && MustLeave(e) {
		return b, false
	}
	return b, true
}

// Unacknowledged is the eviction of a key for which Moorage waits until this source has acknowledged it.
func (t *Tables) Unacknowledged(key, source string) (Eviction, bool) {
	b := t.Bindings[key]
	e, found := t.evictionOf(key, b.UID, b.Generation)
	waits := e.State == "Requested" && e.PurgeMode != "Gracefully" && e.Deployer == source && e.Acknowledged == nil
	return e, found && waits
}

// Step is what is to be done about a key: Place is the binding to carry out, Remove what has to stop.
type Step struct {
	Place  *Binding
	Remove *Running
	Reason string
}

// Next compares a key with what runs there. It returns nil if nothing is to be done.
func (t *Tables) Next(key string, runs []Running) *Step {
	wanted, isWanted := t.Wanted(key)
	bound, isBound := t.Bindings[key]
	for _, r := range runs {
		if isBound && bound.UID == r.UID && bound.Generation < r.Generation {
			return nil // what was read is older than what runs
		}
		if isWanted && wanted.UID == r.UID {
			continue
		}
		reason := "BindingEnded"
		e, isEvicted := t.evictionOf(key, r.UID, r.Generation)
		isEvicted = isEvicted && MustLeave(e)
		if r.Preserved && !isBound && (!isEvicted || e.State == "Cancelled") {
			return nil
		}
		if isEvicted {
			reason = e.Reason
		} else if isBound && bound.UID != r.UID {
			reason = "Replaced"
		}
		return &Step{Remove: &r, Reason: reason}
	}
	if !isWanted || wanted.Suspended {
		return nil
	}
	for _, r := range runs {
		if r.Generation > wanted.Generation || (r.Generation == wanted.Generation && r.Revision >= wanted.Revision) {
			return nil
		}
	}
	return &Step{Place: &wanted}
}
