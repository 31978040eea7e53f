// karmadactl as Karmada builds it, without the sign-in of OpenID Connect.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/karmada-io/karmada/pkg/karmadactl"
)

func main() {
	command := karmadactl.NewKarmadaCtlCommand("karmadactl", "karmadactl")
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err)
	}
}
