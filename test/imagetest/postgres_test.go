package imagetest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// postgresImage replaces the image that compose.yaml names, which only a registry has.
const postgresImage = "claudeops-postgres:test"

// withPostgres is a project as docs/containers.md describes it.
func withPostgres(t *testing.T, name string) *project {
	t.Helper()
	p := newProject(t, name, slimImage)
	folder := t.TempDir()
	if out, err := exec.Command("postgres/build", filepath.Join(folder, "root")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write(t, filepath.Join(folder, "Dockerfile"), readFile(t, "postgres/Dockerfile"))
	p.run("docker", "build", "-t", postgresImage, folder)
	p.env = append(p.env, "POSTGRES_IMAGE="+postgresImage, "COMPOSE_PROFILES=postgres")
	write(t, filepath.Join(p.dir, ".env"), "CLAUDEOPS_API_TOKEN="+token+"\nPOSTGRES_PASSWORD=choose-one\n"+
		"CLAUDEOPS_DATABASE_URL=postgres://claudeops:choose-one@postgres/claudeops\n")
	return p
}

// healthy waits until both containers are.
func (p *project) healthy() {
	p.t.Helper()
	for end := time.Now().Add(limit); ; {
		out := p.run("docker", "compose", "ps", "--all", "--format", "{{.Service}} {{.Health}}")
		if strings.Contains(out, "claudeops healthy") && strings.Contains(out, "postgres healthy") {
			return
		}
		if time.Now().After(end) {
			log, _ := p.try("docker", "compose", "logs", "--no-color", "--tail", "40")
			p.t.Fatalf("not healthy: %s\n%s", out, log)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// query asks the database in its container.
func (p *project) query(sql string) string {
	p.t.Helper()
	return strings.TrimSpace(p.run("docker", "compose", "exec", "-T", "postgres", "psql", "-U", "claudeops", "-d", "claudeops", "-Atc", sql))
}

func TestPostgresOfTheComposeFileKeepsTheState(t *testing.T) {
	p := withPostgres(t, "pg")
	p.run("docker", "compose", "up", "-d", "--wait") // the daemon waits until the new database has set itself up
	p.healthy()
	answers(t, p.d, token)
	// There is no agent in the slim image, so the cycle ends without success. It is recorded all the same, and no word of ours is a secret.
	out, err := p.try("docker", "compose", "exec", "-T", "claudeops", "claudeops", "run", "look at the disk")
	if err == nil || !strings.Contains(out, "set CLAUDEOPS_CLAUDE_BIN") {
		t.Errorf("the cycle: %v: %s", err, out)
	}
	const cycles = "SELECT id, status, prompt FROM cycles WHERE prompt IS NOT NULL"
	before := p.query(cycles)
	contains(t, "the database", before, "look at the disk")

	ids := p.run("docker", "compose", "ps", "-q")
	p.run("docker", "compose", "up", "-d", "--force-recreate")
	p.healthy()
	if p.run("docker", "compose", "ps", "-q") == ids {
		t.Error("the containers are the same")
	}
	if after := p.query(cycles); after != before {
		t.Errorf("the cycle became %q, it was %q", after, before)
	}
	contains(t, "the cycles of the new container", p.inside("claudeops", "cycles", "list"), "look at the disk")

	p.run("docker", "compose", "down", "--volumes", "--timeout", "20")
	for _, what := range [][]string{{"ps", "-aq"}, {"volume", "ls", "-q"}, {"network", "ls", "-q"}} {
		if left := p.d.Docker(t, append(what, "--filter", "label=com.docker.compose.project=pg")...); left != "" {
			t.Errorf("docker %s: %s", strings.Join(what, " "), left)
		}
	}
}
