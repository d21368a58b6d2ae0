// Package broker gives each session its own Docker socket. It speaks the Docker Engine API and judges every request by method,
// path, query and body against an allow list, so the same rules hold for docker, docker compose, SDKs and scripts. What it
// allows is written again from what was judged and sent to the real engine; bytes of the client never reach the engine.
//
// Tier 1 looks, Tier 2 starts and restarts the containers of the incident's services, and Tier 3 also stops them. None makes, changes or
// removes one: that is what the supervisor's actions are for. A container is always resolved to its full id before it is judged, and that
// id is what is sent on.
package broker
