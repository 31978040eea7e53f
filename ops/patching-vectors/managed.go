package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var (
	started time.Time
	builtIn = applyconfigurations.NewTypeConverter(scheme.Scheme)
	custom  = map[schema.GroupVersionKind]managedfields.TypeConverter{}
)

// plain converts nothing: each kind has one version here.
type plain struct{}

func (plain) Convert(in, out, context interface{}) error { return errors.New("not implemented") }

func (plain) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (plain) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.New("not implemented")
}

func (plain) Default(runtime.Object) {}

func (plain) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}

func (r *Request) fieldManager() (*managedfields.FieldManager, error) {
	reset := fieldpath.NewSet()
	for _, path := range r.Reset {
		parts := []interface{}{}
		for _, part := range path {
			parts = append(parts, part)
		}
		reset.Insert(fieldpath.MakePathOrDie(parts...))
	}
	version := r.gvk().GroupVersion()
	filters := map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(reset),
	}
	if len(r.Models) == 0 {
		return managedfields.NewDefaultFieldManager(
			builtIn, scheme.Scheme, plain{}, scheme.Scheme, r.gvk(), version, r.Subresource, filters)
	}
	converter, found := custom[r.gvk()]
	if !found {
		models := map[string]*spec.Schema{}
		if err := json.Unmarshal(r.Models, &models); err != nil {
			return nil, err
		}
		var err error
		if converter, err = managedfields.NewTypeConverter(models, false); err != nil {
			return nil, err
		}
		custom[r.gvk()] = converter
	}
	return managedfields.NewDefaultCRDFieldManager(
		converter, plain{}, plain{}, plain{}, r.gvk(), version, r.Subresource, filters)
}

func (r *Request) object(document []byte) (runtime.Object, error) {
	if len(r.Models) == 0 {
		return r.typed(document)
	}
	object, _ := plain{}.New(r.gvk())
	if len(document) == 0 || string(document) == "null" {
		return object, nil
	}
	return object, json.Unmarshal(document, object)
}

// managed records an update, or carries out an apply. New times are answered as the zero time's text.
func (r *Request) managed() (json.RawMessage, error) {
	manager, err := r.fieldManager()
	if err != nil {
		return nil, err
	}
	live, err := r.object(r.Document)
	if err != nil {
		return nil, err
	}
	var result runtime.Object
	if r.Op == "update" {
		after, err := r.object(r.Modified)
		if err != nil {
			return nil, err
		}
		result = manager.UpdateNoErrors(live, after, r.Manager)
	} else {
		config := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Patch, &config.Object); err != nil {
			return nil, err
		}
		if result, err = manager.Apply(live, config, r.Manager, r.Force); err != nil {
			return nil, err
		}
	}
	accessor, err := meta.Accessor(result)
	if err != nil {
		return nil, err
	}
	entries := accessor.GetManagedFields()
	for number := range entries {
		if at := entries[number].Time; at != nil && !at.Time.Before(started.Add(-time.Minute)) {
			entries[number].Time = &metav1.Time{Time: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
		}
	}
	accessor.SetManagedFields(entries)
	if _, is := result.(*unstructured.Unstructured); is {
		// As an API server writes it, an unknown kind is that of the request.
		return json.Marshal(result.(*unstructured.Unstructured).Object)
	}
	result.GetObjectKind().SetGroupVersionKind(r.gvk())
	return json.Marshal(result)
}

func refused(err error) Answer {
	answer := Answer{Error: err.Error(), Code: 500}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		answer.Code = int(status.Status().Code)
		if details := status.Status().Details; details != nil {
			for _, cause := range details.Causes {
				answer.Causes = append(answer.Causes, []string{string(cause.Type), cause.Message, cause.Field})
			}
		}
	}
	if answer.Error == "" {
		answer.Error = fmt.Sprintf("%T", err)
	}
	return answer
}
