package account

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// StillEvery is how often a line says what an operation waits for.
const StillEvery = 30 * time.Second

// Tell has the lines that say what is waited for told to somebody who waits, too.
func (o *Operation) Tell(tell func(message string)) { o.note(func() { o.tell = tell }) }

// watch says in the log again and again what is waited for, until the operation is closed. It is by the real time, which is what
// somebody who looks at a terminal lives in.
func (o *Operation) watch(ctx context.Context) {
	o.mu.Lock() // whoever is told waits until there is something to tell
	defer o.mu.Unlock()
	o.still = time.AfterFunc(o.config.Every, func() {
		if message, fields, tell := o.status(); message != "" {
			o.log(ctx, "", slog.LevelInfo, message, fields)
			if tell != nil {
				tell(message)
			}
			o.still.Reset(o.config.Every)
		}
	})
}

// status is what is to be said now, nothing after the end.
func (o *Operation) status() (message string, fields map[string]string, tell func(string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return "", nil, nil
	}
	now := o.config.Now()
	since := func(t time.Time) string { return now.Sub(t).Round(time.Second).String() }
	message = "Still at it after " + since(o.began)
	if len(o.steps) > 0 {
		message += ", at the step: " + o.steps[len(o.steps)-1]
	}
	waits := make([]string, len(o.active))
	for i, w := range o.active {
		waits[i] = w.what + " (" + since(w.since) + ")"
	}
	if len(waits) > 0 {
		message += ". Waiting for " + strings.Join(waits, ", for ")
	}
	fields = map[string]string{"operation_id": o.id, "operation": o.config.Name, "resource": o.config.Type}
	if o.sum.Thing != "" {
		fields["thing"] = o.sum.Thing
	}
	return message, fields, o.tell
}
