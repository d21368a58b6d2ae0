package ops

import "testing"

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "web", true},
		{"*", "", true},
		{"web", "web", true},
		{"web", "web2", false},
		{"web*", "web2", true},
		{"*web", "my-web", true},
		{"a*a", "a", false},
		{"GET http://*/health", "GET http://web/x/health", true},
		{"*b*c", "abxc", true},
		{"*b*c", "acxb", false},
		{"[a]", "[a]", true},
	} {
		if got := MatchPattern(c.pattern, c.name); got != c.want {
			t.Errorf("%q %q: got %t", c.pattern, c.name, got)
		}
	}
}
