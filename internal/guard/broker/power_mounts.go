package broker

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// volumes are anonymous: they may be where the replaced container had a mount.
func volumes(old container) comparison {
	return func(field string, value any, before object) error {
		was, _ := before[field].(object)
		now, ok := value.(object)
		if !ok && value != nil {
			return fmt.Errorf("%s is not an object", field)
		}
		for place, v := range now {
			_, ok := was[place]
			ok = ok || slices.ContainsFunc(old.Mounts, func(m mount) bool { return m.Destination == path.Clean(place) })
			if !ok || !isEmpty(v) {
				return more(field, object{place: v})
			}
		}
		return nil
	}
}

// had reports whether the replaced container had this mount, with at least this access.
func (c container) had(kind, source, place string, writes bool) bool {
	return slices.ContainsFunc(c.Mounts, func(m mount) bool {
		same := m.Type == "bind" && m.Source == source || m.Type == "volume" && m.Name == source
		return source != "" && same && (kind == "" || kind == m.Type) && m.Destination == place && (m.RW || !writes)
	})
}

func binds(old container) comparison {
	return func(field string, value any, before object) error {
		was, _ := before[field].([]any)
		now, ok := value.([]any)
		if !ok && value != nil {
			return fmt.Errorf("%s is not a list", field)
		}
		for _, e := range now {
			text, _ := e.(string)
			parts := strings.Split(text, ":")
			plain := len(parts) == 2 || len(parts) == 3 && slices.Contains([]string{"rw", "ro", "rw,nocopy", "ro,nocopy", "nocopy"}, parts[2])
			writes := len(parts) != 3 || !strings.HasPrefix(parts[2], "ro")
			if !contains(was, e) && !(plain && old.had("", parts[0], parts[1], writes)) {
				return more(field, e)
			}
		}
		return nil
	}
}

func mounts(old container) comparison {
	return func(field string, value any, before object) error {
		was, _ := before[field].([]any)
		now, ok := value.([]any)
		if !ok && value != nil {
			return fmt.Errorf("%s is not a list", field)
		}
		for _, e := range now {
			m, _ := e.(object)
			if !contains(was, e) && !old.hadMount(m) {
				return more(field, e)
			}
		}
		return nil
	}
}

// hadMount reports whether a mount without special options is one that the replaced container had.
func (c container) hadMount(m object) bool {
	for name, v := range m {
		options, _ := v.(object)
		switch name {
		case "Type", "Source", "Target", "ReadOnly", "Consistency":
		case "BindOptions":
			for option, o := range options {
				if option != "CreateMountpoint" && !isEmpty(o) && o != "rprivate" {
					return false
				}
			}
		default:
			if !isEmpty(v) {
				return false
			}
		}
	}
	kind, _ := m["Type"].(string)
	source, _ := m["Source"].(string)
	place, _ := m["Target"].(string)
	readOnly, _ := m["ReadOnly"].(bool)
	return (kind == "bind" || kind == "volume") && c.had(kind, source, place, !readOnly)
}

// exposed ports are free, unless all of them are published.
func exposed(old container) comparison {
	if isEmpty(old.HostConfig["PublishAllPorts"]) {
		return free
	}
	return subset
}

// ports are published where they were.
func ports(field string, value any, old object) error {
	was, _ := old[field].(object)
	now, ok := value.(object)
	if !ok && value != nil {
		return fmt.Errorf("%s is not an object", field)
	}
	plain := func(v any) object {
		out := object{"HostIp": "", "HostPort": ""}
		o, _ := v.(object)
		maps.Copy(out, o)
		return out
	}
	for port, v := range now {
		list, ok := v.([]any)
		before, _ := was[port].([]any)
		if !ok && v != nil {
			return more(field, object{port: v})
		}
		for _, e := range list {
			if !slices.ContainsFunc(before, func(b any) bool { return canonical(plain(b)) == canonical(plain(e)) }) {
				return more(field, object{port: e})
			}
		}
	}
	return nil
}
