package engine

// Process is what the code of a handler runs in: the API daemon or a worker.
type Process struct {
	*Request
	Worker *Worker // nil: synchronous
}

// Logf adds a line to the task's log, if there is a task.
func (p Process) Logf(format string, args ...any) {
	if p.Worker != nil {
		p.Worker.Logf(format, args...)
	}
}
