// Package demo is a small real service and the incident of the demo.
//
// The service is called mediabox. It answers /health with 200 while the library it is configured for answers, and with
// 502 otherwise. Its page /player comes from a cache, which is emptied before it is filled again. A
// Keeper owns its process: it starts the process, restarts it on request through a socket in the demo's folder, and stops
// it when the demo ends. So a restart never leaves a process behind.
package demo
