package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Vectors of each kind, and the most bytes that one may have in protobuf.
const (
	vectorsOfAKind = 4
	mostBytes      = 1800
)

// Types whose objects have no type of their own (an event of a watch), no protobuf (a table) or only a rule of their
// own (a list of objects of any kind).
var notSent = map[string]bool{"WatchEvent": true, "Table": true, "List": true}

// writeVectors writes random objects of every kind that has protobuf, each as JSON and in protobuf's envelope.
func writeVectors(path string) error {
	var lines bytes.Buffer
	groupVersions := []string{}
	for groupVersion := range roots {
		groupVersions = append(groupVersions, groupVersion)
	}
	sort.Strings(groupVersions)
	for _, groupVersion := range groupVersions {
		for _, value := range roots[groupVersion] {
			goType := reflect.TypeOf(value)
			if notSent[goType.Name()] {
				continue
			}
			// A seed of its own, so that another kind changes no vectors of this one. With this number, the vectors
			// contain every sort of value.
			seed := fnv.New64a()
			seed.Write([]byte("19 " + groupVersion + "/" + goType.Name()))
			random := rand.New(rand.NewSource(int64(seed.Sum64())))
			for written := 0; written < vectorsOfAKind; {
				made := reflect.New(goType)
				filler{random, 1 + written}.fill(made.Elem(), 0)
				line, size, err := vector(groupVersion, goType.Name(), made.Interface())
				if err != nil {
					return fmt.Errorf("%s: %w", goType, err)
				}
				if size <= mostBytes {
					lines.Write(append(line, '\n'))
					written++
				}
			}
		}
	}
	return os.WriteFile(path, lines.Bytes(), 0o644)
}

// vector is a line of the file, and its number of bytes in protobuf.
func vector(groupVersion, kind string, made any) ([]byte, int, error) {
	object := made.(runtime.Object)
	parsed, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		return nil, 0, err
	}
	object.GetObjectKind().SetGroupVersionKind(parsed.WithKind(kind))
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(nil, nil).Encode(object, &encoded); err != nil {
		return nil, 0, err
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, 0, err
	}
	line, err := json.Marshal(struct {
		Kind     string          `json:"kind"`
		Document json.RawMessage `json:"document"`
		Protobuf []byte          `json:"protobuf"`
	}{groupVersion + "/" + kind, text, encoded.Bytes()})
	return line, encoded.Len(), err
}

// filler fills values at random. The deeper it is, the more it leaves out.
type filler struct {
	random *rand.Rand
	size   int
}

func (f filler) chance(depth int) bool {
	return f.random.Intn(2+depth*depth) < f.size
}

func (f filler) fill(value reflect.Value, depth int) {
	switch made := value.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		if f.chance(depth) {
			*made = metav1.NewTime(time.Unix(f.random.Int63n(4e9)-1e9, 0).UTC())
		}
		return
	case *metav1.MicroTime:
		*made = metav1.NewMicroTime(time.Unix(f.random.Int63n(4e9), f.random.Int63n(1e6)*1000).UTC())
		return
	case *resource.Quantity:
		*made = resource.MustParse([]string{"0", "1", "500m", "1Gi", "3e6", "-2", "1500k"}[f.random.Intn(7)])
		return
	case *intstr.IntOrString:
		if f.chance(depth) {
			*made = intstr.FromString([]string{"25%", "http", ""}[f.random.Intn(3)])
		} else {
			*made = intstr.FromInt32(f.random.Int31() - 1<<30)
		}
		return
	case *runtime.RawExtension:
		made.Raw = []byte(`{"any":{"thing":[1,"two",null]}}`)
		return
	case *metav1.FieldsV1:
		made.Raw = []byte(`{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`)
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for at := range value.NumField() {
			if value.Type().Field(at).IsExported() {
				f.fill(value.Field(at), depth+1)
			}
		}
	case reflect.Pointer:
		if f.chance(depth) {
			value.Set(reflect.New(value.Type().Elem()))
			f.fill(value.Elem(), depth+1)
		}
	case reflect.Slice:
		if !f.chance(depth) {
			return
		}
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte{0, 255, byte(f.random.Intn(256))})
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 1+f.random.Intn(2), 2))
		for at := range value.Len() {
			f.fill(value.Index(at), depth+1)
		}
	case reflect.Map:
		if !f.chance(depth) {
			return
		}
		value.Set(reflect.MakeMap(value.Type()))
		for _, key := range []string{"a", "b/ü"}[:1+f.random.Intn(2)] {
			one := reflect.New(value.Type().Elem()).Elem()
			f.fill(one, depth+1)
			value.SetMapIndex(reflect.ValueOf(key).Convert(value.Type().Key()), one)
		}
	case reflect.String:
		if f.chance(depth) {
			value.SetString([]string{"a", "Ünïcode ☃", strings.Repeat("long ", 30)}[f.random.Intn(20)/9])
		}
	case reflect.Bool:
		value.SetBool(f.random.Intn(2) == 0)
	case reflect.Int32:
		value.SetInt([]int64{0, 1, -1, 80, 1<<31 - 1, -1 << 31}[f.random.Intn(6)])
	case reflect.Int64, reflect.Int:
		value.SetInt([]int64{0, 1, -1, 300, 1<<63 - 1, -1 << 63}[f.random.Intn(6)])
	case reflect.Float64:
		value.SetFloat(f.random.Float64())
	}
}
