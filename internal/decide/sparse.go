package decide

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
)

// Sparse is a value as JSON, without the fields that are not set. A pointer to zero is set.
func Sparse(v any) (json.RawMessage, error) { return plain(sparse(v)) }

func sparse(v any) any { return sparseValue(reflect.ValueOf(v)) }

func sparseValue(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch v.Interface().(type) {
	case json.Marshaler, encoding.TextMarshaler, []byte:
		return v.Interface()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return sparseValue(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch {
			case !f.IsExported() || v.Field(i).IsZero() || f.Tag.Get("json") == "-":
			case f.Anonymous:
				embedded, _ := sparseValue(v.Field(i)).(map[string]any)
				maps.Copy(out, embedded)
			default:
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" {
					name = f.Name
				}
				out[name] = sparseValue(v.Field(i))
			}
		}
		return out
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = sparseValue(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[fmt.Sprint(k)] = sparseValue(v.MapIndex(k))
		}
		return out
	default: // a number, a text or a truth value
		return v.Interface()
	}
}

// plain is a value as JSON in which texts stand as they are.
func plain(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
