package moorage

import "testing"

const key = "Pod/shop/web|Node/n1"

func bound(change func(*Binding)) *Binding {
	b := &Binding{
		Workload: Workload{Kind: "Pod", Namespace: "shop", Name: "web"}, Target: Target{Kind: "Node", Name: "n1"},
		UID: "a", Generation: 1, Revision: 1,
	}
	if change != nil {
		change(b)
	}
	return b
}

func evicted(state, mode string) *Eviction {
	return &Eviction{
		Workload: Workload{Kind: "Pod", Namespace: "shop", Name: "web"}, Target: Target{Kind: "Node", Name: "n1"},
		WorkloadUID: "a", Generation: 1, State: state, PurgeMode: mode, Reason: "UntoleratedTaint",
	}
}

func what(step *Step) string {
	switch {
	case step == nil:
		return "nothing"
	case step.Place != nil:
		return "place " + step.Place.UID
	default:
		return "remove " + step.Reason
	}
}

func TestNext(t *testing.T) {
	for _, one := range []struct {
		name     string
		binding  *Binding
		eviction *Eviction
		runs     *Binding
		want     string
	}{
		{"a binding that does not run", bound(nil), nil, nil, "place a"},
		{"a binding that runs", bound(nil), nil, bound(nil), "nothing"},
		{"a changed binding", bound(func(b *Binding) { b.Revision = 2 }), nil, bound(nil), "place a"},
		{"a suspended binding", bound(func(b *Binding) { b.Suspended = true }), nil, nil, "nothing"},
		{"a scheduled eviction", bound(nil), evicted("Scheduled", ""), bound(nil), "nothing"},
		{"a requested eviction", bound(nil), evicted("Requested", ""), bound(nil), "remove UntoleratedTaint"},
		{"a graceful eviction", bound(nil), evicted("Requested", "Gracefully"), bound(nil), "nothing"},
		{"an ended binding", nil, nil, bound(nil), "remove BindingEnded"},
		{"a preserved one", nil, nil, bound(func(b *Binding) { b.Preserved = true }), "nothing"},
		{"a namesake", bound(func(b *Binding) { b.UID, b.Generation = "b", 2 }), nil, bound(nil), "remove Replaced"},
		{"an older table", bound(nil), nil, bound(func(b *Binding) { b.Generation = 2 }), "nothing"},
	} {
		t.Run(one.name, func(t *testing.T) {
			tables := NewTables()
			if one.binding != nil {
				tables.Bindings[key] = *one.binding
			}
			if one.eviction != nil {
				tables.Evictions[key+"|1"] = *one.eviction
			}
			var runs []Running
			if one.runs != nil {
				runs = append(runs, Of(*one.runs))
			}
			if got := what(tables.Next(key, runs)); got != one.want {
				t.Errorf("got %s, want %s", got, one.want)
			}
		})
	}
}

func TestKeysOfTargets(t *testing.T) {
	for _, text := range []string{"Node/n1", "east:Cluster/c.1"} {
		if got := ParseTarget(text).Key(); got != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
}
