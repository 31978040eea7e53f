package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// roots are the built-in kinds by group and version.
var roots = map[string][]any{
	"v1": {corev1.Namespace{}, corev1.Node{}, corev1.Pod{}, corev1.ConfigMap{}, corev1.Service{}, corev1.Event{},
		corev1.Binding{}, corev1.ServiceAccount{}, corev1.Secret{}, corev1.PersistentVolumeClaim{}, corev1.LimitRange{},
		corev1.ResourceQuota{}, corev1.ReplicationController{}, corev1.Endpoints{}, corev1.PersistentVolume{},
		metav1.Status{}, metav1.List{}},
	"apps/v1": {appsv1.Deployment{}, appsv1.ReplicaSet{}, appsv1.StatefulSet{}, appsv1.DaemonSet{},
		appsv1.ControllerRevision{}},
	"batch/v1":                  {batchv1.Job{}, batchv1.CronJob{}},
	"autoscaling/v2":            {autoscalingv2.HorizontalPodAutoscaler{}},
	"networking.k8s.io/v1":      {networkingv1.Ingress{}, networkingv1.NetworkPolicy{}},
	"scheduling.k8s.io/v1":      {schedulingv1.PriorityClass{}},
	"storage.k8s.io/v1":         {storagev1.StorageClass{}},
	"discovery.k8s.io/v1":       {discoveryv1.EndpointSlice{}},
	"policy/v1":                 {policyv1.PodDisruptionBudget{}, policyv1.Eviction{}},
	"autoscaling/v1":            {autoscalingv1.Scale{}},
	"coordination.k8s.io/v1":    {coordinationv1.Lease{}},
	"events.k8s.io/v1":          {eventsv1.Event{}},
	"lifecycle.k8s.io/v1alpha1": {lifecyclev1alpha1.EvictionRequest{}},
	"rbac.authorization.k8s.io/v1": {rbacv1.Role{}, rbacv1.RoleBinding{}, rbacv1.ClusterRole{},
		rbacv1.ClusterRoleBinding{}},
	"authorization.k8s.io/v1": {authorizationv1.SelfSubjectAccessReview{}, authorizationv1.SubjectAccessReview{},
		authorizationv1.LocalSubjectAccessReview{}, authorizationv1.SelfSubjectRulesReview{}},
	"authentication.k8s.io/v1": {authenticationv1.SelfSubjectReview{}, authenticationv1.TokenReview{}, authenticationv1.TokenRequest{}},
	"meta.k8s.io/v1": {metav1.DeleteOptions{}, metav1.CreateOptions{}, metav1.UpdateOptions{}, metav1.PatchOptions{},
		metav1.ListOptions{}, metav1.GetOptions{}, metav1.PartialObjectMetadata{}, metav1.Table{}, metav1.WatchEvent{},
		metav1.APIResourceList{}, metav1.APIGroup{}, metav1.APIGroupList{}, metav1.APIVersions{}},
}

// Definitions whose JSON is not that of their Go type.
var leaves = map[string]node{
	"io.k8s.apimachinery.pkg.apis.meta.v1.Time":       {"form": "time", "format": "date-time"},
	"io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime":  {"form": "time", "format": "date-time"},
	"io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1":   {"form": "any"},
	"io.k8s.apimachinery.pkg.runtime.RawExtension":    {"form": "any"},
	"io.k8s.apimachinery.pkg.api.resource.Quantity":   {"form": "quantity"},
	"io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"form": "int-or-string"},
	"io.k8s.apimachinery.pkg.apis.meta.v1.Duration":   {"form": "string"},
}

// openapi is a schema of an OpenAPI document.
type openapi = map[string]any

type reader struct {
	published   map[string]openapi
	definitions map[string]node
}

func nativeTypes(kubernetesFolder, karmadaFolder string) (document, error) {
	published := map[string]openapi{}
	files, err := filepath.Glob(filepath.Join(kubernetesFolder, "api/openapi-spec/v3/*_openapi.json"))
	if err != nil {
		return document{}, err
	}
	for _, file := range files {
		var read struct {
			Components struct{ Schemas map[string]openapi }
		}
		if err := parse(file, &read); err != nil {
			return document{}, err
		}
		for name, schema := range read.Components.Schemas {
			published[name] = schema
		}
	}
	if err := addEnums(kubernetesFolder, published); err != nil {
		return document{}, err
	}
	var swagger struct{ Definitions map[string]openapi }
	if err := parse(filepath.Join(karmadaFolder, "api/openapi-spec/swagger.json"), &swagger); err != nil {
		return document{}, err
	}
	const clusters = "com.github.karmada-io.karmada.pkg.apis.cluster."
	for name, schema := range swagger.Definitions {
		if strings.HasPrefix(name, clusters) {
			published[name] = schema
		}
	}
	found := reader{published, map[string]node{}}
	kinds := map[string]any{}
	for groupVersion, values := range roots {
		for _, value := range values {
			goType := reflect.TypeOf(value)
			name := found.define(goType)
			kinds[groupVersion+"/"+goType.Name()] = name
		}
	}
	kinds["cluster.karmada.io/v1alpha1/Cluster"] = clusters + "v1alpha1.Cluster"
	found.definePublished(clusters + "v1alpha1.Cluster")
	return document{kinds, found.definitions}, nil
}

func parse(file string, into any) error {
	read, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(read, into)
}

// definitionName is the name that the OpenAPI documents give to a Go type.
func definitionName(goType reflect.Type) string {
	return "io." + strings.ReplaceAll(strings.Replace(goType.PkgPath(), "k8s.io", "k8s", 1), "/", ".") + "." + goType.Name()
}

// define reads a Go struct. It returns the name of its definition.
func (r *reader) define(goType reflect.Type) string {
	name := definitionName(goType)
	if _, done := r.definitions[name]; done {
		return name
	}
	if leaf, is := leaves[name]; is {
		r.definitions[name] = leaf
		return name
	}
	fields := node{}
	made := node{"form": "struct", "fields": fields}
	r.definitions[name] = made
	said := r.published[name]
	if said["x-kubernetes-map-type"] == "atomic" {
		made["is_atomic"] = true
	}
	required := map[string]bool{}
	for _, one := range list(said["required"]) {
		required[one.(string)] = true
	}
	properties, _ := said["properties"].(map[string]any)
	r.fields(goType, fields, properties, required, nil, nil)
	return name
}

func (r *reader) fields(goType reflect.Type, into node, said map[string]any, required map[string]bool, within []int,
	embedded []string) {
	for at := range goType.NumField() {
		field := goType.Field(at)
		tag := strings.Split(field.Tag.Get("json"), ",")
		number := protobufNumber(field)
		if field.Anonymous && tag[0] == "" {
			// JSON inlines it; in protobuf it is a message of its own, or (TypeMeta) left out.
			around := append(append([]int{}, within...), number)
			r.fields(field.Type, into, said, required, around, append(append([]string{}, embedded...), field.Name))
			continue
		}
		if tag[0] == "" || tag[0] == "-" || !field.IsExported() {
			continue
		}
		properties, _ := said[tag[0]].(map[string]any)
		made := r.value(field.Type, properties)
		if number != 0 && !slices.Contains(within, 0) {
			made["number"] = number
			if len(within) > 0 {
				made["within"], made["embedded"] = within, embedded
			}
		}
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			made["patch_strategies"] = strings.Split(strategy, ",")
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			made["merge_key"] = key
		}
		if required[tag[0]] {
			made["required"] = true
		}
		if field.Type.Kind() == reflect.Pointer {
			made["is_pointer"] = true
		}
		omits := false
		for _, option := range tag[1:] {
			omits = omits || option == "omitempty" && field.Type.Kind() != reflect.Struct || option == "omitzero"
		}
		if omits {
			made["omits_empty"] = true
		}
		into[tag[0]] = made
	}
}

func protobufNumber(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	check(err)
	return number
}

// value reads the type of a field, of an element or of a map's value, with what the OpenAPI document says of it.
func (r *reader) value(goType reflect.Type, said openapi) node {
	if goType.Kind() == reflect.Pointer {
		return r.value(goType.Elem(), said)
	}
	made := node{}
	if goType.Kind() == reflect.Struct {
		made["ref"] = r.define(goType)
		builtIn(made, said)
		return made
	}
	switch goType.Kind() {
	case reflect.String:
		made["form"] = "string"
	case reflect.Bool:
		made["form"] = "boolean"
	case reflect.Int32, reflect.Uint32:
		made["form"], made["format"] = "integer", "int32"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		made["form"], made["format"] = "integer", "int64"
	case reflect.Float64:
		made["form"], made["format"] = "number", "double"
	case reflect.Interface:
		made["form"] = "any"
	case reflect.Map:
		made["form"] = "map"
		items, _ := said["additionalProperties"].(map[string]any)
		made["items"] = r.value(goType.Elem(), items)
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			made["form"], made["format"] = "string", "byte"
			break
		}
		made["form"] = "list"
		items, _ := said["items"].(map[string]any)
		made["items"] = r.value(goType.Elem(), items)
	default:
		panic(fmt.Sprintf("%s has no form in JSON", goType))
	}
	if _, isMessage := reflect.New(goType).Interface().(interface{ Marshal() ([]byte, error) }); isMessage !=
		(goType.Kind() == reflect.Slice && goType.PkgPath() != "") {
		// The codec takes it as a rule that lists with a name, and nothing else that has no fields, are messages.
		panic(fmt.Sprintf("%s breaks the rule of what is a message in protobuf", goType))
	}
	if goType.PkgPath() != "" {
		made["type_name"] = goType.String()
	}
	builtIn(made, said)
	return made
}

// builtIn takes over the same of a Go type, whose fields have their zero values without being told.
func builtIn(made node, said openapi) {
	common(made, said)
	if isZero(made["default"]) {
		delete(made, "default")
	}
}

// common takes over what an OpenAPI document says in the same words for built-in types and custom resources.
func common(made node, said openapi) {
	if kind := said["x-kubernetes-list-type"]; kind != nil && kind != "atomic" {
		made["list_type"] = kind
	}
	if keys := said["x-kubernetes-list-map-keys"]; keys != nil {
		made["list_keys"] = keys
	}
	if said["x-kubernetes-map-type"] == "atomic" {
		made["is_atomic"] = true
	}
	if said["nullable"] == true {
		made["is_nullable"] = true
	}
	if enum := list(said["enum"]); enum != nil {
		made["enum"] = enum
	}
	if value := said["default"]; value != nil {
		made["default"] = value
	}
}

func isZero(value any) bool {
	switch typed := value.(type) {
	case map[string]any:
		return len(typed) == 0
	case string:
		return typed == ""
	case float64:
		return typed == 0
	}
	return false
}

func list(value any) []any {
	found, _ := value.([]any)
	return found
}

// definePublished reads a definition, and what it refers to, from the OpenAPI document alone.
func (r *reader) definePublished(name string) {
	if _, done := r.definitions[name]; done {
		return
	}
	r.definitions[name] = node{}
	made := fromOpenAPI(r.published[name], func(reference string) string {
		at := reference[strings.LastIndex(reference, "/")+1:]
		if leaf, is := leaves[at]; is {
			r.definitions[at] = leaf
		} else {
			r.definePublished(at)
		}
		return at
	})
	r.definitions[name] = made
}
