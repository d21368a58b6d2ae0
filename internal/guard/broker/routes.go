package broker

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/guard"
	"claudeops/internal/ops"
)

// action is what an allowed request does.
type action string

const (
	look    action = "look"
	start   action = "start"
	restart action = "restart"
	unpause action = "unpause"
	stop    action = "stop"
)

// does is the built-in action of the supervisor that has the same effect.
func (a action) does() string {
	switch a {
	case restart:
		return string(ops.ActionRestart)
	case start, unpause:
		return string(ops.ActionStart)
	default:
		return string(ops.ActionStop)
	}
}

// values says which values of a query parameter are allowed.
type values func(string) bool

// route is one request that the broker knows.
type route struct {
	method string
	path   string // * is one segment, ** one or more
	tier   ops.Tier
	action action
	query  map[string]values
	hide   bool // the answer holds environment variables or options of drivers
}

var (
	numberShape = ops.Pattern(`^-?[0-9]{1,10}$`)
	signalShape = ops.Pattern(`^[A-Z0-9+]{1,12}$`)
	nameShape   = ops.Pattern(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)
)

func anything(string) bool { return true }

// off reports what Docker reads as false.
func off(s string) bool {
	return slices.Contains([]string{"", "0", "no", "false", "none"}, strings.ToLower(strings.TrimSpace(s)))
}

func flag(s string) bool {
	return off(s) || slices.Contains([]string{"1", "yes", "true"}, strings.ToLower(s))
}
func number(s string) bool { return numberShape().MatchString(s) }
func signal(s string) bool { return signalShape().MatchString(s) }

// processes are the arguments of ps that do not show environments. The engine runs ps on the host, as root.
func processes(s string) bool { return guard.PlainPs(strings.Fields(s)) }

func routes() []route {
	type q = map[string]values
	return slices.Concat([]route{
		{http.MethodHead, "_ping", ops.Tier1, look, nil, false},
		{http.MethodGet, "_ping", ops.Tier1, look, nil, false},
		{http.MethodGet, "version", ops.Tier1, look, nil, false},
		{http.MethodGet, "info", ops.Tier1, look, nil, true},
		{http.MethodGet, "events", ops.Tier1, look, q{"since": anything, "until": anything, "filters": anything}, false},
		{http.MethodGet, "system/df", ops.Tier1, look, q{"type": anything, "verbose": flag}, true},
		{
			http.MethodGet, "containers/json", ops.Tier1, look,
			q{"all": flag, "limit": number, "size": flag, "filters": anything, "trunc_cmd": flag, "since": anything, "before": anything},
			false,
		},
		{http.MethodGet, "containers/*/json", ops.Tier1, look, q{"size": flag}, true},
		{http.MethodGet, "containers/*/top", ops.Tier1, look, q{"ps_args": processes}, false},
		{http.MethodGet, "containers/*/logs", ops.Tier1, look, q{
			"follow": flag, "stdout": flag, "stderr": flag, "since": anything, "until": anything, "timestamps": flag, "tail": anything,
			"details": off, // they are environment variables and labels
		}, false},
		{http.MethodGet, "containers/*/stats", ops.Tier1, look, q{"stream": flag, "one-shot": flag}, false},
		{http.MethodGet, "containers/*/changes", ops.Tier1, look, nil, false},
		{http.MethodPost, "containers/*/wait", ops.Tier1, look, q{"condition": anything}, false},
		{
			http.MethodGet, "images/json", ops.Tier1, look,
			q{
				"all": flag, "filters": anything, "filter": anything, "digests": flag, "shared-size": flag, "manifests": flag,
				"only_ids": flag,
			},
			false,
		},
		{http.MethodGet, "images/**/json", ops.Tier1, look, q{"manifests": flag, "platform": anything}, true},
		{http.MethodGet, "networks", ops.Tier1, look, q{"filters": anything}, true},
		{http.MethodGet, "networks/*", ops.Tier1, look, q{"verbose": flag, "scope": anything}, true},
		{http.MethodGet, "volumes", ops.Tier1, look, q{"filters": anything}, true},
		{http.MethodGet, "volumes/*", ops.Tier1, look, nil, true},
	}, changing())
}

func changing() []route {
	type q = map[string]values
	return []route{
		{http.MethodPost, "containers/*/start", ops.Tier2, start, nil, false},
		{http.MethodPost, "containers/*/restart", ops.Tier2, restart, q{"t": number, "signal": signal}, false},
		{http.MethodPost, "containers/*/unpause", ops.Tier2, unpause, nil, false},
		{http.MethodPost, "containers/*/stop", ops.Tier3, stop, q{"t": number, "signal": signal}, false},
	}
}

// matches reports whether a path is one of the route.
func (r route) matches(path []string) bool {
	want := strings.Split(r.path, "/")
	wide := slices.Index(want, "**")
	if wide >= 0 {
		extra := len(path) - len(want)
		if extra < 0 {
			return false
		}
		want = slices.Concat(want[:wide], slices.Repeat([]string{"*"}, extra+1), want[wide+1:])
	}
	if len(path) != len(want) {
		return false
	}
	for i, w := range want {
		if w != "*" && w != path[i] {
			return false
		}
	}
	return true
}

const (
	maxURI = 8 << 10
	// oldestMinor is the oldest API version, that of Docker 19.03. Nothing that is judged here was different since then.
	oldestMinor = 40
)

var (
	versionShape = ops.Pattern(`^v1\.([0-9]{1,3})$`)
	// segmentShape matches every name that Docker gives to things, and image references without their slashes.
	//
	segmentShape = ops.Pattern(`^[A-Za-z0-9_][A-Za-z0-9_.:@+-]*$`)
	// plainURI matches the printable characters that may stand in a request's path and query.
	//
	plainURI = ops.Pattern(`^/[\x21\x24-\x5b\x5d-\x7e]*$`)
)

// target is what a request addresses: the path in decoded segments, without the version, and the query.
type target struct {
	method  string
	version string // v1.41, or empty
	path    []string
	query   url.Values
}

// String is the target as it is recorded.
func (t target) String() string {
	s := t.method + " /" + strings.Join(t.path, "/")
	if len(t.query) > 0 {
		s += "?" + t.query.Encode()
	}
	return s
}

// parseTarget reads the request line. It decodes percent signs once and refuses everything that another reader could
// understand differently.
func parseTarget(method, uri string) (target, error) {
	t := target{method: method, query: url.Values{}}
	if len(uri) > maxURI || !plainURI().MatchString(uri) {
		return t, errors.New("its path is too long or has characters that do not belong there")
	}
	path, query, _ := strings.Cut(uri, "?")
	for raw := range strings.SplitSeq(path[1:], "/") {
		segment, err := url.PathUnescape(raw)
		if err != nil || !segmentShape().MatchString(segment) || strings.Contains(segment, "..") {
			return t, fmt.Errorf("%q cannot be part of a path", raw)
		}
		t.path = append(t.path, segment)
	}
	if m := versionShape().FindStringSubmatch(t.path[0]); m != nil && len(t.path) > 1 {
		if minor, err := strconv.Atoi(m[1]); err != nil || minor < oldestMinor {
			return t, fmt.Errorf("API versions before 1.%d are not supported", oldestMinor)
		}
		t.version, t.path = t.path[0], t.path[1:]
	}
	var err error
	if t.query, err = url.ParseQuery(query); err != nil {
		return t, errors.New("its query cannot be read")
	}
	for name, values := range t.query {
		if len(values) > 1 {
			return t, fmt.Errorf("its query has %q twice", name)
		}
	}
	return t, nil
}

// address is the path for the engine.
func (t target) address() string {
	if t.version != "" {
		return "/" + t.version + "/" + strings.Join(t.path, "/")
	}
	return "/" + strings.Join(t.path, "/")
}
