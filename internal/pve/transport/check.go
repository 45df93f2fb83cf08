package transport

import (
	"context"
	"errors"
	"net"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
)

// dialFunc opens a connection, like net.Dialer.DialContext.
type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// checking returns a function that gives a connection only while the context's check returns nil. A nil one stays nil.
func checking(dial dialFunc) dialFunc {
	if dial == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if err := oplog.Checked(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
}
