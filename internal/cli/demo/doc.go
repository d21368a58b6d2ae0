// Package demo is a small real service and the incident that is played on it.
//
// The service is called mediabox. It answers /health with 200 while the library it is configured for answers, and with
// 502 otherwise. A Keeper owns its process: it starts it, starts it anew when asked through a socket in the demo's
// folder, and ends it with itself. So a restart asked for by an agent never leaves a process behind.
package demo
