package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// maxBody is how long the body of a request may be: those that are permitted have none, or an empty object.
const maxBody = 1 << 10

// object is a decoded JSON object. Numbers stay as they were written.
type object = map[string]any

// parse reads one JSON value.
func parse(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return v, nil
}

// write encodes a value for the client.
func write(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// redactedValue replaces the value of an environment variable or an option.
const redactedValue = "[redacted]"

// hideSecrets replaces the values of environment variables, also those that are part of a proxy's address, and the options of volumes,
// networks and log drivers: the password of a share is one.
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
		if list, ok := v.([]any); ok {
			return hideEnv(list)
		}
		return hideValues(v)
	case "httpproxy", "httpsproxy", "createcommand", "options", "driveropts", "storageopt":
		return hideValues(v)
	case "status":
		if _, ok := v.(object); ok { // of a volume's driver
			return hideValues(v)
		}
		return v
	case "logconfig":
		if config, ok := v.(object); ok {
			config["Config"] = hideValues(config["Config"])
		}
		return v
	}
	return hideSecrets(v)
}

// hideValues replaces every text but those of options that say how something is done and never by whom.
func hideValues(v any) any {
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			v[i] = hideValues(e)
		}
	case object:
		for name, e := range v {
			if !plainOption(name) {
				v[name] = hideValues(e)
			}
		}
	case string:
		if v != "" {
			return redactedValue
		}
	case json.Number:
		return redactedValue
	}
	return v
}

func plainOption(name string) bool {
	return name == "type" || name == "tag" || strings.HasPrefix(name, "max-") || strings.HasPrefix(name, "com.docker.network.")
}

// hideEnv keeps the names. PATH is kept whole: it explains why a program is not found.
func hideEnv(list []any) any {
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
