package broker

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"claudeops/internal/ops"
)

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
