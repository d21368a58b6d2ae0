package broker

import (
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/guard/scan"
	"claudeops/internal/ops"
)

// action is what an allowed request does.
type action string

const (
	look       action = "look"
	start      action = "start"
	restart    action = "restart"
	unpause    action = "unpause"
	stop       action = "stop"
	remove     action = "remove"
	rename     action = "rename"
	create     action = "create"
	connect    action = "connect"
	disconnect action = "disconnect"
	pull       action = "pull"
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
	hide   bool // the answer holds environment variables
}

var (
	numberShape = ops.Pattern(`^-?[0-9]{1,10}$`)
	signalShape = ops.Pattern(`^[A-Z0-9+]{1,12}$`)
	nameShape   = ops.Pattern(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)
	imageShape  = ops.Pattern(`^[a-zA-Z0-9][a-zA-Z0-9_.:/@-]{0,255}$`)
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
func name(s string) bool   { return nameShape().MatchString(s) }
func image(s string) bool  { return imageShape().MatchString(s) }

// processes are the arguments of ps that do not show environments. The engine runs ps on the host, as root.
func processes(s string) bool { return scan.PlainPs(strings.Fields(s)) }

func routes() []route {
	type q = map[string]values
	return slices.Concat([]route{
		{http.MethodHead, "_ping", ops.Tier1, look, nil, false},
		{http.MethodGet, "_ping", ops.Tier1, look, nil, false},
		{http.MethodGet, "version", ops.Tier1, look, nil, false},
		{http.MethodGet, "info", ops.Tier1, look, nil, true},
		{http.MethodGet, "events", ops.Tier1, look, q{"since": anything, "until": anything, "filters": anything}, false},
		{http.MethodGet, "system/df", ops.Tier1, look, q{"type": anything, "verbose": flag}, false},
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
		{http.MethodGet, "networks", ops.Tier1, look, q{"filters": anything}, false},
		{http.MethodGet, "networks/*", ops.Tier1, look, q{"verbose": flag, "scope": anything}, false},
		{http.MethodGet, "volumes", ops.Tier1, look, q{"filters": anything}, false},
		{http.MethodGet, "volumes/*", ops.Tier1, look, nil, false},
	}, changing())
}

func changing() []route {
	type q = map[string]values
	return []route{
		{http.MethodPost, "containers/*/start", ops.Tier2, start, nil, false},
		{http.MethodPost, "containers/*/restart", ops.Tier2, restart, q{"t": number, "signal": signal}, false},
		{http.MethodPost, "containers/*/unpause", ops.Tier2, unpause, nil, false},
		{http.MethodPost, "containers/*/stop", ops.Tier3, stop, q{"t": number, "signal": signal}, false},
		// Its anonymous volumes and the links of others stay.
		{http.MethodDelete, "containers/*", ops.Tier3, remove, q{"force": flag, "v": off, "link": off}, false},
		{http.MethodPost, "containers/*/rename", ops.Tier3, rename, q{"name": name}, false},
		{http.MethodPost, "containers/create", ops.Tier3, create, q{"name": name, "platform": anything}, false},
		{http.MethodPost, "networks/*/connect", ops.Tier3, connect, nil, false},
		{http.MethodPost, "networks/*/disconnect", ops.Tier3, disconnect, nil, false},
		{http.MethodPost, "images/create", ops.Tier3, pull, q{"fromImage": image, "tag": anything, "platform": anything}, false},
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
