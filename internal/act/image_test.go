package act

import "testing"

func TestRepositories(t *testing.T) {
	for ref, want := range map[string]string{
		"web": "docker.io/library/web", "web:1": "docker.io/library/web", "docker.io/web@sha256:aa": "docker.io/library/web", "a/web:1@sha256:aa": "docker.io/a/web",
		"host:5000/web": "host:5000/web", "host:5000/web:1": "host:5000/web", "ghcr.io/a/b:c": "ghcr.io/a/b", "localhost/x:1": "localhost/x", "index.docker.io/a/web": "docker.io/a/web",
	} {
		if got := repository(ref); got != want {
			t.Errorf("%s is %s", ref, got)
		}
	}
}
