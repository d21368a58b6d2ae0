package river

import (
	"strings"
	"testing"
)

func TestQueueNames(t *testing.T) {
	long := strings.Repeat("x", 59)
	for _, tt := range []struct{ got, want string }{
		{labelQueue(nil), "any"},
		{labelQueue([]string{"lan", "gpu", "lan"}), "label-gpu_lan"},
		{labelQueue([]string{"a--b"}), "labelhash-"},
		{labelQueue([]string{"Prod"}), "labelhash-"},
		{labelQueue([]string{"größe"}), "labelhash-"},
		{labelQueue([]string{long}), "labelhash-"},
		{labelQueue([]string{long[1:]}), "label-" + long[1:]},
		{hostQueue("ops-1"), "host-ops-1"},
		{hostQueue("Ops.example.org"), "hosthash-"},
	} {
		if !strings.HasPrefix(tt.got, tt.want) || len(tt.got) > 64 {
			t.Errorf("a queue is %q, want %q", tt.got, tt.want)
		}
	}
	if labelQueue([]string{"Prod"}) == labelQueue([]string{"prod"}) || labelQueue([]string{"a b"}) == labelQueue([]string{"a  b"}) {
		t.Error("two sets of labels share a queue")
	}
}
