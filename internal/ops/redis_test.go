package ops

import "testing"

func TestRedisLooksOnly(t *testing.T) {
	for _, c := range []struct {
		want  bool
		words []string
	}{
		{true, []string{"get", "a"}},
		{true, []string{"CONFIG", "GET", "maxmemory"}},
		{false, []string{"CONFIG", "GET", "*"}},
		{false, []string{"CONFIG", "SET", "a", "b"}},
		{false, []string{"FLUSHALL"}},
	} {
		if RedisReads(c.words) != c.want {
			t.Errorf("redis %q: %v", c.words, !c.want)
		}
	}
}
