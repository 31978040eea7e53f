// A deployer in Go, written from the contract alone. A workload that runs is a file in a folder.
//
//	go run ./deployer --folder running --target 'Node/*'
//
// It acknowledges evictions: done when the file is gone, failed when it cannot be removed, refused for workloads that
// --protect names.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	moorage "github.com/moorage/moorage/sdk/go"
)

const (
	heartbeat = 10 * time.Second // a quarter of the default grace period of a source
	tryAgain  = time.Second
)

// machines is the place where workloads run. Each handler may be called again for something that it has done already.
type machines struct{ folder string }

func (m machines) path(r moorage.Running) string {
	// The uid is part of the name, so a new workload of the same name is never taken for the old one.
	sum := sha256.Sum256([]byte(r.Key() + "|" + r.UID))
	return filepath.Join(m.folder, hex.EncodeToString(sum[:16])+".json")
}

func (m machines) list() (map[string][]moorage.Running, error) {
	paths, err := filepath.Glob(filepath.Join(m.folder, "*.json"))
	if err != nil {
		return nil, err
	}
	found := map[string][]moorage.Running{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r moorage.Running
		if err := json.Unmarshal(content, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		found[r.Key()] = append(found[r.Key()], r)
	}
	return found, nil
}

func (m machines) start(r moorage.Running) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	draft := m.path(r) + ".draft"
	if err := os.WriteFile(draft, content, 0o644); err != nil {
		return err
	}
	return os.Rename(draft, m.path(r)) // all or nothing, also if the process is killed now
}

func (m machines) stop(r moorage.Running) error {
	if err := os.Remove(m.path(r)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

type deployer struct {
	gateway   *moorage.Gateway
	machines  machines
	source    string
	protected map[string]bool   // workloads whose evictions are refused
	said      map[string]string // why evicted work was not removed, as reported last, by key
	tables    *moorage.Tables   // nil before the present was reached for the first time
	building  *moorage.Tables   // what is read since the last reset; nil after the present was reached
	isPending bool              // whether a step has failed
}

// take folds an event in, and acts on it.
func (d *deployer) take(event moorage.Event) error {
	switch event.Name {
	case "reset":
		d.building = moorage.NewTables()
		return nil
	case "present":
		if d.building == nil {
			return nil
		}
		d.tables, d.building = d.building, nil
		return d.actOnAll()
	case "bindings", "evictions":
		tables := d.building
		if tables == nil {
			tables = d.tables
		}
		key, err := fold(tables, event)
		if err != nil || d.building != nil {
			return err
		}
		return d.act(key)
	}
	return nil // a newer gateway may send others
}

// fold returns the key of the binding that the event concerns.
func fold(tables *moorage.Tables, event moorage.Event) (string, error) {
	var record struct {
		Key   string
		Value json.RawMessage
	}
	if err := json.Unmarshal([]byte(event.Data), &record); err != nil {
		return "", err
	}
	isGone := len(record.Value) == 0 || string(record.Value) == "null"
	if event.Name == "bindings" {
		if isGone {
			delete(tables.Bindings, record.Key)
			return record.Key, nil
		}
		var b moorage.Binding
		err := json.Unmarshal(record.Value, &b)
		tables.Bindings[record.Key] = b
		return record.Key, err
	}
	key := record.Key[:strings.LastIndex(record.Key, "|")]
	if isGone {
		delete(tables.Evictions, record.Key)
		return key, nil
	}
	var e moorage.Eviction
	err := json.Unmarshal(record.Value, &e)
	tables.Evictions[record.Key] = e
	if err == nil && e.State == "Scheduled" {
		fmt.Printf("prepare %s on %s: must leave at %s\n", e.Workload.Key(), e.Target.Key(), e.Deadline)
	}
	return key, err
}

func (d *deployer) actOnAll() error {
	d.isPending = false
	runs, err := d.machines.list()
	if err != nil {
		return err
	}
	keys := map[string]bool{}
	for key := range d.tables.Bindings {
		keys[key] = true
	}
	for key := range runs {
		keys[key] = true
	}
	for key := range keys {
		if err := d.act(key); err != nil {
			return err
		}
	}
	return d.report(nil)
}

// act takes steps about a key until nothing is left to do. What fails is tried again later.
func (d *deployer) act(key string) error {
	for {
		runs, err := d.machines.list()
		if err != nil {
			return err
		}
		step := d.tables.Next(key, runs[key])
		if step == nil {
			return d.acknowledge(key, runs[key])
		}
		if step.Remove != nil {
			if _, isEvicted := d.tables.Unacknowledged(key, d.source); isEvicted && d.protected[step.Remove.Workload] {
				return d.escalate(key, "Refused", "the workload is protected")
			}
			if err := d.machines.stop(*step.Remove); err != nil {
				return errors.Join(err, d.escalate(key, "Failed", err.Error()))
			}
			fmt.Printf("stop %s on %s: %s\n", step.Remove.Workload, step.Remove.Target, step.Reason)
			continue
		}
		if err := d.machines.start(moorage.Of(*step.Place)); err != nil {
			return err
		}
		if len(runs[key]) == 0 {
			fmt.Printf("start %s on %s\n", step.Place.Workload.Key(), step.Place.Target.Key())
		}
		if err := d.report(&key); err != nil {
			return err
		}
	}
}

// acknowledge says that evicted work is gone, also if an earlier process has removed it.
func (d *deployer) acknowledge(key string, runs []moorage.Running) error {
	e, waits := d.tables.Unacknowledged(key, d.source)
	if !waits {
		delete(d.said, key)
		return nil
	}
	for _, r := range runs {
		if r.UID == e.WorkloadUID {
			return nil
		}
	}
	return d.send([]moorage.Report{d.outcome(e, "True", "", "")})
}

// escalate says why evicted work was not removed, unless it has said so already.
func (d *deployer) escalate(key, reason, message string) error {
	e, waits := d.tables.Unacknowledged(key, d.source)
	if !waits || d.said[key] == reason+message {
		return nil
	}
	if err := d.send([]moorage.Report{d.outcome(e, "False", reason, message)}); err != nil {
		return err
	}
	d.said[key] = reason + message
	return nil
}

func (d *deployer) outcome(e moorage.Eviction, status, reason, message string) moorage.Report {
	return moorage.Report{Target: e.Target, Workload: &e.Workload, WorkloadUID: e.WorkloadUID,
		BindingGeneration: e.Generation, Type: "Evicted", Status: status, Reason: reason, Message: message,
		ObservedTime: now(), Source: d.source}
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z") }

// report says that what runs where its binding is now is healthy: one workload, or all of them. With all, it repeats
// what it has acknowledged, until the eviction shows it.
func (d *deployer) report(only *string) error {
	runs, err := d.machines.list()
	if err != nil {
		return err
	}
	reports := []moorage.Report{}
	for key, found := range runs {
		wanted, isWanted := d.tables.Wanted(key)
		if only != nil && key != *only || !isWanted {
			continue
		}
		for _, r := range found {
			if r.UID == wanted.UID {
				workload := wanted.Workload
				reports = append(reports, moorage.Report{Target: wanted.Target, Workload: &workload, WorkloadUID: r.UID,
					BindingGeneration: r.Generation, Type: "Healthy", Status: "True", Reason: "Running",
					ObservedTime: now(), Source: d.source})
			}
		}
	}
	if only == nil {
		for key := range d.tables.Bindings {
			if err := d.acknowledge(key, runs[key]); err != nil {
				return err
			}
		}
	}
	return d.send(reports)
}

func (d *deployer) send(reports []moorage.Report) error {
	for begin := 0; begin < len(reports); begin += 500 {
		refused, err := d.gateway.Send(context.Background(), reports[begin:min(begin+500, len(reports))])
		if err != nil {
			return err
		}
		for _, refusal := range refused {
			fmt.Fprintf(os.Stderr, "deployer: a report does not count: %s: %s\n", refusal.Reason, refusal.Message)
		}
	}
	return nil
}

func (d *deployer) run(ctx context.Context, events <-chan moorage.Event) {
	beat, again := time.NewTicker(heartbeat), time.NewTicker(tryAgain)
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case event := <-events:
			err = d.take(event)
		case <-beat.C:
			if d.tables != nil {
				err = d.report(nil)
			}
		case <-again.C:
			if d.isPending && d.tables != nil {
				err = d.actOnAll()
			}
		}
		if err != nil {
			d.isPending = true
			fmt.Fprintf(os.Stderr, "deployer: %v; tried again\n", err)
		}
	}
}

type list []string

func (l *list) String() string         { return strings.Join(*l, ",") }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

func main() {
	var targets, protected list
	folder := flag.String("folder", "running", "where the workloads are")
	source := flag.String("source", "examples/go-deployer", "the source of the reports")
	flag.Var(&targets, "target", "a target to serve, such as Node/n1 or Node/*; all if none")
	flag.Var(&protected, "protect", "a workload whose evictions are refused, such as Pod/shop/web")
	flag.Parse()
	if err := os.MkdirAll(*folder, 0o755); err != nil {
		fmt.Fprintf(os.Stderr, "deployer: %v\n", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	events := make(chan moorage.Event)
	d := &deployer{gateway: moorage.NewGateway(), machines: machines{*folder}, source: *source,
		protected: map[string]bool{}, said: map[string]string{}}
	for _, workload := range protected {
		d.protected[workload] = true
	}
	go d.gateway.Follow(ctx, targets, events)
	d.run(ctx, events)
}
