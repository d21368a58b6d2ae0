package ops_test

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestProseHasNoJSON(t *testing.T) {
	for give, want := range map[string]string{
		"connection refused":                    "connection refused",
		"two\n lines":                           "two lines",
		`{"command":"docker restart web"}`:      "docker restart web",
		`Edit {"file_path":"/etc/x","old":"a"}`: "Edit /etc/x",
		`{"container":"web","force":true}`:      "container web, force true",
		`{"command":"docker compose up \"web…`:  "docker compose up web",
		`{"a":{"b":["c",1]}}`:                   "a b c, 1",
		`map {x} of {}`:                         "map {x} of",
		`API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`: "API Error: 401 invalid x-api-key",
		`{"type":"error","error":{"message":"overloaded"}} (attempt 3)`:                                         "overloaded (attempt 3)",
	} {
		if got := ops.Prose(give); got != strings.TrimSpace(want) {
			t.Errorf("Prose(%s) is %q, want %q", give, got, want)
		}
	}
}
