package cli

import (
	"bytes"
	"strings"
	"testing"
)

// Only yes is an answer that changes something.
func TestAQuestionWantsAYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "Yes\n": true, "n\n": false, "\n": false, "": false, "yep\n": false} {
		var said bytes.Buffer
		a := &app{Process: Process{Stdin: strings.NewReader(answer), Stderr: &said}}
		if got := (hosts{a}).yes("Drain it?"); got != want || said.String() != "Drain it? [y/N] " {
			t.Errorf("%q: %v, said %q", answer, got, said.String())
		}
		if !(hosts{a}).agreed("Drain it?") {
			t.Error("a script was asked")
		}
	}
}
