package wall

import "testing"

func TestTheUserHasAnotherShellInTheListOfUsers(t *testing.T) {
	t.Parallel()
	const users = "root:x:0:0:root:/root:/bin/bash\nweb:x:33:33::/:/bin/sh\ntoor:x:0:0::/:/bin/zsh\n"
	if got, want := withShell(users, 0, "/g/bash"), "root:x:0:0:root:/root:/g/bash\nweb:x:33:33::/:/bin/sh\ntoor:x:0:0::/:/g/bash\n"; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := withShell(users, 54, "/g/bash"), "claudeops-agent:x:54:54::/:/g/bash\n"+users; got != want {
		t.Errorf("got %q", got)
	}
}
