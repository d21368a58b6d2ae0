package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxBody  = 1 << 20
	maxDepth = 24
)

// object is a decoded JSON object. Numbers stay as they were written.
type object = map[string]any

// parseObject reads a JSON object in which no name appears twice. Docker reads names without regard to case, so names that
// differ only in case count as the same.
func parseObject(text []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	out, ok := v.(object)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	return out, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return parseFields(dec, depth)
	case json.Delim('['):
		out := []any{}
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		_, err := dec.Token()
		return out, err
	default:
		return token, nil
	}
}

func parseFields(dec *json.Decoder, depth int) (object, error) {
	out, seen := object{}, map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, errors.New("a name is not a string")
		}
		if strings.ContainsAny(name, "\u017f\u212a") { // Docker reads them as s and k
			return nil, fmt.Errorf("the name %q can be read as another one", name)
		}
		if seen[strings.ToLower(name)] {
			return nil, fmt.Errorf("the name %q appears twice", name)
		}
		seen[strings.ToLower(name)] = true
		if out[name], err = parseValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return out, err
}

// write encodes a value for the engine or the client.
func write(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// canonical is the same text for equal values.
func canonical(v any) string {
	text, err := write(v)
	if err != nil {
		return "" // what was decoded can be encoded
	}
	return string(text)
}

// isEmpty reports values that ask for nothing: null, false, zero, an empty text, an empty list, and objects of such values.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case []any:
		return len(v) == 0
	case object:
		for _, e := range v {
			if !isEmpty(e) {
				return false
			}
		}
		return true
	}
	return false
}

// redactedValue replaces the value of an environment variable.
const redactedValue = "[redacted]"

// hideSecrets replaces the values of environment variables, also those that are part of a proxy's address or of the options
// of a log driver.
func hideSecrets(v any) any {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			v[i] = hideSecrets(e)
		}
	case object:
		for name, e := range v {
			v[name] = hideField(name, e)
		}
	}
	return v
}

func hideField(name string, v any) any {
	switch strings.ToLower(name) {
	case "env":
		return hideEnv(v)
	case "httpproxy", "httpsproxy", "createcommand":
		if isEmpty(v) {
			return v
		}
		if _, list := v.([]any); list {
			return []any{redactedValue}
		}
		return redactedValue
	case "logconfig":
		config, ok := v.(object)
		if options, isObject := config["Config"].(object); ok && isObject {
			for k, o := range options {
				if strings.Contains(k, "token") || strings.Contains(k, "key") || strings.Contains(k, "address") || strings.Contains(k, "url") {
					if !isEmpty(o) {
						options[k] = redactedValue
					}
				}
			}
		}
		return v
	}
	return hideSecrets(v)
}

// hideEnv keeps the names. PATH is kept whole: it explains why a program is not found.
func hideEnv(v any) any {
	list, ok := v.([]any)
	if !ok {
		if isEmpty(v) {
			return v
		}
		return redactedValue
	}
	for i, e := range list {
		text, ok := e.(string)
		name, _, assigned := strings.Cut(text, "=")
		switch {
		case !ok:
			list[i] = redactedValue
		case assigned && name != "PATH":
			list[i] = name + "=" + redactedValue
		}
	}
	return list
}
