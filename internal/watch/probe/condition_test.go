package probe

import (
	"strings"
	"testing"
)

func TestConditionsOnJSON(t *testing.T) {
	const document = `{"status":"ok","n":3,"big":9007199254740993,"ready":true,"off":false,"none":null,
		"checks":[{"ms":12.5},{"ms":300}],"a.b":{"c d":"x"},"list":[],"at":"2026-01-31"}`
	cases := []struct{ condition, problem string }{
		{`$.status == "ok"`, ""},
		{`$.status=="ok"`, ""},
		{`  $.status   ==   "ok"  `, ""},
		{`$.status == "bad"`, `$.status == "bad" does not hold: it is "ok"`},
		{`$.status != "bad"`, ""},
		{`$.status != "ok"`, `$.status != "ok" does not hold: it is "ok"`},
		{`$.n == 3.0`, ""},
		{`$.n >= 3`, ""},
		{`$.n > 3`, `$.n > 3 does not hold: it is 3`},
		{`$.n < 1e1`, ""},
		{`$.n <= 2`, `$.n <= 2 does not hold: it is 3`},
		{`$.n == "3"`, `$.n == "3" does not hold: it is 3`},
		{`$.n != "3"`, ""},
		{`$.big == 9007199254740993`, ""},
		{`$.checks[0].ms < 250`, ""},
		{`$.checks[-1].ms < 250`, `$.checks[-1].ms < 250 does not hold: it is 300`},
		{`$.checks[2].ms < 250`, `$.checks[2].ms < 250 does not hold: it is missing`},
		{`$["a.b"]["c d"] == "x"`, ""},
		{`$.ready`, ""},
		{`$.ready == true`, ""},
		{`$.ready > false`, `$.ready > false does not hold: it is true`},
		{`$.off`, "$.off is false"},
		{`$.none`, "$.none is null"},
		{`$.none == null`, ""},
		{`$.missing`, "$.missing is missing"},
		{`$.missing != "x"`, `$.missing != "x" does not hold: it is missing`},
		{`$.status.deeper == 1`, `$.status.deeper == 1 does not hold: it is missing`},
		{`$.list[0]`, "$.list[0] is missing"},
		{`$.checks == "x"`, `$.checks == "x" does not hold: it is a list`},
		{`$ == "x"`, `$ == "x" does not hold: it is an object`},
		{`$.at >= "2026-01-30"`, ""},
	}
	parsed, err := decodeJSON([]byte(document))
	must(t, err)
	for _, c := range cases {
		got, err := parseCondition(c.condition)
		if err != nil {
			t.Errorf("%s: %v", c.condition, err)
			continue
		}
		if problem := got.check(parsed); problem != c.problem {
			t.Errorf("%s: got %q, want %q", c.condition, problem, c.problem)
		}
	}
}

func TestUnreadableConditionsAreRefused(t *testing.T) {
	for condition, problem := range map[string]string{
		"":                   "does not start with $",
		"status == 1":        "does not start with $",
		"$.a = 1":            "use ==",
		"$.a == ok":          "is not a JSON text",
		`$.a == "x" or true`: "is not a JSON text",
		"$.a == [1]":         "is not a JSON text",
		"$.a ==":             "is not a JSON text",
		"$..a":               "a key is missing",
		"$[x]":               `"x" is not an index`,
		"$[1":                "is not an index",
		`$["a`:               "a quoted key must end",
		`$["a"x]`:            "a quoted key must end",
		"$.a b":              "use ==",
	} {
		if _, err := parseCondition(condition); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: got %v, want %q", condition, err, problem)
		}
	}
}

func FuzzCondition(f *testing.F) {
	f.Add(`$.a[0]["b"] == 1`, `{"a":[{"b":1}]}`)
	f.Add(`$`, `null`)
	f.Fuzz(func(_ *testing.T, condition, document string) {
		parsed, err := decodeJSON([]byte(document))
		if err != nil {
			return
		}
		if c, err := parseCondition(condition); err == nil {
			_ = c.check(parsed)
		}
	})
}
