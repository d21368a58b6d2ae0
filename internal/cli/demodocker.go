package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"claudeops/internal/cli/demo"
)

// removeLimit is how long the engine may take to remove the containers of the demo.
const removeLimit = time.Minute

// dockerDemoConfig is the configuration of the demo on real containers. The program and the socket of the engine are filled in.
const dockerDemoConfig = `# Written by claudeops demo --docker.
interval: 1h
notes: This is a demonstration on two containers, a library and its player.
agent:
  bin: scripted
  scenario: builtin:demo-docker
  env: [CLAUDEOPS_DEMO_PACE]
docker:
  socket: %[2]q
services:
  - name: library
    probes:
      - {type: container, container: ` + demo.Library + `, socket: %[2]q}
    actions:
      - name: recreate
        description: make the container again from its image
        tier: 3
        run: [%[1]q, demo, recreate, --socket, %[2]q]
  - name: player
    depends_on: [library]
    probes:
      - {type: container, container: ` + demo.Player + `, socket: %[2]q}
`

// dockerDemo starts two containers and breaks one of them. Close removes them.
func (a *app) dockerDemo(ctx context.Context, dir, self string) (i incident, err error) {
	socket, err := demo.DockerSocket(a.variable("DOCKER_HOST"))
	if err != nil {
		return i, err
	}
	busybox, err := demo.FindBusybox(a.variable("PATH"))
	if err != nil {
		return i, err
	}
	docker := demo.NewDocker(socket)
	remove := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		return docker.Down(ctx)
	}
	made, err := docker.Up(ctx, busybox)
	if err == nil {
		fmt.Fprintf(a.Stderr, "The containers %s and %s run. Now the first one is broken.\n", demo.Library, demo.Player)
		err = docker.Break(ctx)
	}
	if err != nil && made {
		err = errors.Join(err, remove())
	}
	if err != nil {
		return i, err
	}
	options, err := a.demoOptions(dir, demoFiles{config: fmt.Sprintf(dockerDemoConfig, self, socket)})
	if err != nil {
		return i, errors.Join(err, remove())
	}
	options.Self = self
	return incident{options: options, end: remove}, nil
}

// demoRecreate is the operator's own action in the demo on real containers.
func (a *app) demoRecreate() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use: "recreate", Short: "Make the demo's broken container again", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := demo.NewDocker(socket).Recreate(c.Context()); err != nil {
				return err
			}
			fmt.Fprintf(a.Stdout, "%s was made again from its image\n", demo.Library)
			return nil
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "Unix socket of the Docker engine")
	return c
}
