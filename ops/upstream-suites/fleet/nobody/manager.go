// Package controllers takes the place of OCM's package of the same name, so that the specs start no controllers of
// their own: those of a control plane decide, or Moorage.
package controllers

import (
	"context"

	"github.com/openshift/library-go/pkg/controller/controllercmd"
)

// RunControllerManager waits for the end of a spec.
func RunControllerManager(ctx context.Context, _ *controllercmd.ControllerContext) error {
	<-ctx.Done()
	return nil
}
