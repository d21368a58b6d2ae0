package guard

import (
	"reflect"
	"testing"
)

func TestOutputIsKnownOnlyWhereItIsCertain(t *testing.T) {
	for _, c := range []struct {
		want   value
		stages [][]string
	}{
		{value{num: true, plain: true}, [][]string{{"docker", "ps", "-q"}, {"wc", "-l"}}},
		{value{plain: true}, [][]string{{"docker", "ps", "-q"}, {"head", "-1"}}},
		{value{plain: true}, [][]string{{"kubectl", "get", "pods", "-o", "name"}}},
		{value{plain: true}, [][]string{{"docker", "ps"}, {"awk", "NR>1 {print $1}"}}},
		{value{num: true, unset: true}, [][]string{{"df"}, {"tr", "-dc", "0-9"}}},
		{value{}, [][]string{{"echo", "-x"}}},
		{value{}, [][]string{{"docker", "ps", "-q"}, {"sed", "s/^/-/"}}},
		{value{}, [][]string{{"docker", "ps", "--format", "{{.Command}}"}}},
		{value{}, [][]string{{"pgrep", "-l", "bash"}}},
		{value{}, [][]string{{"docker", "ps", "-q"}, {"grep", "-o", "x"}}},
		{value{}, [][]string{{"docker", "exec", "web", "ls", "--quiet"}}},
		{value{}, [][]string{{"docker", "ps", "-q", "--format", "{{.Command}}"}}},
		{value{}, [][]string{{"kubectl", "get", "pods", "-o", "name", "-o", "yaml"}}},
		{value{}, [][]string{{"docker", "ps", "-q"}, {"head", "-c3"}}},
		{value{}, [][]string{{"docker", "ps", "-q"}, {"tail", "--bytes=3"}}},
		{value{plain: true}, [][]string{{"docker", "compose", "-f", "a.yml", "ps", "--services"}, {"sort"}}},
		{value{plain: true}, [][]string{{"docker", "ps", "-a", "--format", "{{ .Names }}"}, {"grep", "-v", "db"}}},
		{value{num: true, plain: true}, [][]string{{"curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://x/"}}},
	} {
		if got := pipelinePrints(c.stages); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.stages, got, c.want)
		}
	}
}
