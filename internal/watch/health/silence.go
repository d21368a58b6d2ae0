package health

import (
	"strings"
	"time"
)

// Matcher picks checks by patterns in which * stands for any text; an empty pattern matches everything.
type Matcher struct {
	Environment string
	Service     string
	Group       string
	Probe       string
}

func (m Matcher) matches(environment, service, group, probe string) bool {
	return like(m.Environment, environment) && like(m.Service, service) && like(m.Group, group) && like(m.Probe, probe)
}

// Like reports whether a name matches a pattern in which * stands for any text; an empty pattern matches everything.
func Like(pattern, name string) bool { return like(pattern, name) }

// like compares a name with a pattern. Names hold slashes and brackets, so only the star is special.
func like(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		_, after, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = after
	}
	return strings.HasSuffix(rest, parts[last])
}

// Silence is a person's wish that certain checks start nothing for a while.
type Silence struct {
	Matcher
	From   time.Time
	Until  time.Time
	Reason string
	Author string
}

func (s Silence) active(now time.Time) bool { return !now.Before(s.From) && now.Before(s.Until) }
