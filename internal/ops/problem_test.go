package ops_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"claudeops/internal/ops"
)

func TestShortReasonIsPlainAndShort(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"connection refused": "connection refused",
		"dial tcp 127.0.0.1:6379: connect: connection refused":               "connection refused",
		`Get "http://web:8080/health": dial tcp 10.0.0.4:8080: i/o timeout`:  "no answer in time",
		`Get "http://web/": context deadline exceeded`:                       "no answer in time",
		"context deadline exceeded":                                          "no answer in time",
		"no answer within 5s":                                                "no answer within 5 s",
		"no answer within 500ms":                                             "no answer within 500 ms",
		"no answer within 1m0s":                                              "no answer within 60 s",
		"dial tcp: lookup redis on 127.0.0.11:53: no such host":              "host not found",
		`Get "https://web/": EOF`:                                            "connection closed without an answer",
		"HTTP 502 Bad Gateway":                                               "HTTP 502",
		"HTTP 502":                                                           "HTTP 502",
		`HTTP 200, but the body does not contain "ok"`:                       `HTTP 200, but the body does not contain "ok"`,
		"read tcp 10.0.0.1:55->10.0.0.2:80: read: connection reset by peer.": "connection reset by peer",
		"  two\tblanks  and\nanother line":                                   "two blanks and",
		"turned\u202earound\x07":                                             "turned around",
		"":                                                                   "",
	} {
		if got := ops.ShortReason(text); got != want {
			t.Errorf("ShortReason(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestAProblemNamesServicesAndReason(t *testing.T) {
	t.Parallel()
	refused := func(names ...string) (all []ops.Trouble) {
		for _, n := range names {
			all = append(all, ops.Trouble{Service: n, Status: ops.Down, Error: "connection refused"})
		}
		return all
	}
	slow := ops.Trouble{Service: "web", Status: ops.Degraded, Error: "no answer within 5s"}
	for name, c := range map[string]struct {
		all  []ops.Trouble
		want string
	}{
		"nothing":           {nil, ""},
		"no name":           {[]ops.Trouble{{Error: "HTTP 502"}}, ""},
		"one":               {refused("redis"), "redis: connection refused"},
		"one, two checks":   {append(refused("redis"), refused("redis")...), "redis: connection refused"},
		"two alike":         {refused("redis", "web"), "redis and web: connection refused"},
		"two, two reasons":  {append(refused("redis"), slow), "redis: connection refused and 1 more"},
		"three":             {refused("redis", "web", "db"), "redis: connection refused and 2 more"},
		"only a status":     {[]ops.Trouble{{Service: "redis", Status: ops.Down}}, "redis: down"},
		"nothing but names": {[]ops.Trouble{{Service: "redis"}}, "redis: needs attention"},
	} {
		if got := ops.ProblemOf(c.all); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAProblemIsOneShortLine(t *testing.T) {
	t.Parallel()
	long := []ops.Trouble{
		{Service: strings.Repeat("s", 300) + "\nsecond", Error: strings.Repeat("überlang ", 200) + "\nsecond"},
		{Service: "web", Error: "HTTP 502"},
		{Service: "db", Error: "HTTP 503"},
	}
	got := ops.ProblemOf(long)
	if utf8.RuneCountInString(got) > 90 || strings.ContainsAny(got, "\n\r") || !strings.HasSuffix(got, " and 2 more") || !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}
