// Command clientgo is an informer and typed writers of client-go, with protobuf bodies. It follows a server for a time,
// while its writers give config maps numbers, and prints as JSON what the informer was told too little or twice.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const number = "example.com/number"

type counts struct {
	mu      sync.Mutex
	Events  int      `json:"events"`
	Missed  []string `json:"missed"`
	Doubled []string `json:"doubled"`
	Differs []string `json:"differs"`
	Writes  int64    `json:"writes"`
	Retries int64    `json:"retries"`
}

func numberOf(found *corev1.ConfigMap) int {
	value, _ := strconv.Atoi(found.Annotations[number])
	return value
}

// text is an object as JSON, which says why it was told again.
func text(found *corev1.ConfigMap) string {
	written, err := json.Marshal(found)
	if err != nil {
		return err.Error()
	}
	return string(written)
}

// told compares an object with the one before it. An update that changes nothing is a resync, or an event told twice.
func (c *counts) told(before, after *corev1.ConfigMap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Events++
	if before == nil || before.UID != after.UID {
		return
	}
	was, is := numberOf(before), numberOf(after)
	switch {
	case is > was+1:
		c.Missed = append(c.Missed, fmt.Sprintf("%s: %d after %d", after.Name, is, was))
	case is <= was:
		c.Doubled = append(c.Doubled, fmt.Sprintf("%s: %d after %d: %s after %s", after.Name, is, was, text(after), text(before)))
	}
}

// write makes one change, until the server has taken it.
func write(ctx context.Context, client kubernetes.Interface, namespace, name string, dice *rand.Rand, c *counts) {
	maps := client.CoreV1().ConfigMaps(namespace)
	for {
		found, err := maps.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			annotations := map[string]string{number: "1"}
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
			_, err = maps.Create(ctx, made, metav1.CreateOptions{})
		case err == nil && dice.Intn(20) == 0:
			err = maps.Delete(ctx, name, metav1.DeleteOptions{})
		case err == nil:
			found.Annotations[number] = strconv.Itoa(numberOf(found) + 1)
			_, err = maps.Update(ctx, found, metav1.UpdateOptions{})
		}
		if err == nil {
			atomic.AddInt64(&c.Writes, 1)
			return
		}
		atomic.AddInt64(&c.Retries, 1)
		time.Sleep(50 * time.Millisecond)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "the server")
	namespace := flag.String("namespace", "default", "where to write")
	seconds := flag.Float64("seconds", 20, "how long to write, at least")
	writes := flag.Int64("writes", 0, "how much to write, at least")
	writers := flag.Int("writers", 3, "how many write at the same time")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst, config.Timeout = 500, 1000, 0
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	found := &counts{Missed: []string{}, Doubled: []string{}, Differs: []string{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(*namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(one any) { found.told(nil, one.(*corev1.ConfigMap)) },
		UpdateFunc: func(old, one any) {
			found.told(old.(*corev1.ConfigMap), one.(*corev1.ConfigMap))
		},
		DeleteFunc: func(any) { found.told(nil, &corev1.ConfigMap{}) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}

	var group sync.WaitGroup
	end := time.Now().Add(time.Duration(*seconds * float64(time.Second)))
	for one := range *writers {
		group.Go(func() {
			dice := rand.New(rand.NewSource(int64(one)))
			for time.Now().Before(end) || atomic.LoadInt64(&found.Writes) < *writes {
				write(ctx, client, *namespace, fmt.Sprintf("typed-%d-%d", one, dice.Intn(10)), dice, found)
			}
		})
	}
	group.Wait()

	for try := range 100 {
		differs, err := compare(ctx, client, *namespace, informer.GetStore())
		if err == nil && len(differs) == 0 {
			break
		}
		if try == 99 {
			found.Differs = append(differs, fmt.Sprint(err))
		}
		time.Sleep(200 * time.Millisecond)
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	return json.NewEncoder(os.Stdout).Encode(found)
}

// compare names the objects whose version in the cache is not that of a list.
func compare(ctx context.Context, client kubernetes.Interface, namespace string, store cache.Store) ([]string, error) {
	listed, err := client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, one := range store.List() {
		kept := one.(*corev1.ConfigMap)
		versions[kept.Name] = kept.ResourceVersion
	}
	differs := []string{}
	for _, one := range listed.Items {
		if versions[one.Name] != one.ResourceVersion {
			differs = append(differs, one.Name)
		}
		delete(versions, one.Name)
	}
	for name := range versions {
		differs = append(differs, name)
	}
	sort.Strings(differs)
	return differs, nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
