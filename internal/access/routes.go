package access

import (
	"net/url"
	"strings"
)

// route is a request that changes something, and the operation it is. A word in braces matches any one part of a path.
type route struct {
	method, path string
	operation    Operation
}

// apiPrefix is where the API is served. Its paths are those of the pages where both exist.
const apiPrefix = "/api/v1"

// routes are the requests that change something. A request that is not listed here needs the strongest role.
func routes() []route {
	const post, remove = "POST", "DELETE"
	return []route{
		{post, "/theme", Personal},
		{post, "/login", Personal},
		{post, "/logout", Personal},
		{post, "/login/passkey/begin", Personal},
		{post, "/login/passkey", Personal},

		{post, "/mcp", Look},                // each tool is a request of its own, which is checked like any other
		{post, "/answer/{token}", Personal}, // the token of the link says what it may do

		{post, "/incidents/{id}/ack", Acknowledge},
		{post, "/incidents/{id}/snooze", Snooze},
		{post, "/incidents/{id}/resolve", Resolve},
		{post, "/incidents/{id}/run", Run},
		{post, "/approvals/{id}/deny", Deny},
		{post, "/approvals/{id}/approve", Approve},
		{post, "/services/trust", Approve},
		{post, apiPrefix + "/services/{name}/heartbeat", Run},
		{post, apiPrefix + "/trust", Approve},
		{post, "/reflexes/{id}/enable", Approve},
		{post, "/reflexes/{id}/disable", Approve},

		{post, "/run", Run},
		{post, apiPrefix + "/cycles", Run},
		{post, "/cycles/{id}/run", Run},
		{post, "/actions", Run},
		{post, "/actions/{id}/undo", Run},
		{post, apiPrefix + "/actions/runs", Run},
		{post, apiPrefix + "/actions/runs/{id}/undo", Run},
		{post, apiPrefix + "/actions/runs/{id}/withdraw", Run},
		{post, "/services/update", Run},
		{post, apiPrefix + "/updates/runs", Run},

		{post, "/cycles/{id}/stop", Stop},
		{post, apiPrefix + "/cycles/{id}/cancel", Stop},
		{post, "/sessions/{id}/stop", Stop},

		{post, "/silences", Silence},
		{post, "/silences/{id}/end", Silence},
		{post, "/services/cooldown", Clear},
		{post, apiPrefix + "/cooldowns/clear", Clear},
		{post, "/memory", Remember},
		{post, "/memory/{id}/remove", Remember},
		{post, apiPrefix + "/memories", Remember},
		{remove, apiPrefix + "/memories/{id}", Remember},
		{post, "/notifications/test", Resend},
		{post, "/notifications/{id}/retry", Resend},
		{post, "/hosts/{change}", Drain},

		{post, "/settings/services/new", Administer},
		{post, "/settings/services/{name}/probes/new", Administer},
		{post, "/settings/notifications/new", Administer},
		{post, "/settings/trust", Administer},
		{post, "/config/tokens", Administer},
		{post, "/config/tokens/{name}/revoke", Administer},
		{post, "/config/passkeys/begin", Administer},
		{post, "/config/passkeys", Administer},
		{post, "/config/passkeys/{id}/remove", Administer},
	}
}

// OperationOf is the operation of a request, given by its method and its escaped path. A method that changes nothing looks; a change
// that no rule names needs an administrator.
func OperationOf(method, path string) Operation {
	o, _ := Find(method, path)
	return o
}

// Find is OperationOf, and reports whether a rule names the request.
func Find(method, path string) (o Operation, named bool) {
	switch method {
	case "GET", "HEAD", "OPTIONS":
		return Look, true
	}
	for _, r := range routes() {
		if r.method == method && (matches(r.path, path) || matches(apiPrefix+r.path, path)) {
			return r.operation, true
		}
	}
	return Administer, false
}

// matches reports whether a path has the form of a pattern. The path is compared part by part, as the router does it, so that an
// encoded slash does not make another path of it.
func matches(pattern, path string) bool {
	wanted, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(wanted) != len(given) {
		return false
	}
	for i, part := range given {
		part, err := url.PathUnescape(part)
		wild := strings.HasPrefix(wanted[i], "{") && part != ""
		if err != nil || !wild && wanted[i] != part {
			return false
		}
	}
	return true
}
