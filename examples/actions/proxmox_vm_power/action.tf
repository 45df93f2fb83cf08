resource "proxmox_vm" "web" {
  node  = "pve1"
  name  = "web"
  disks = { scsi0 = { storage = "local-zfs", size = "8G" } }

  lifecycle {
    action_trigger {
      events  = [after_update]
      actions = [action.proxmox_vm_power.restart]
    }
  }
}

# By the trigger above, or by hand: terraform apply -invoke=action.proxmox_vm_power.restart
#
# Terraform 1.17 and later refuse the address of the resource that has the trigger ("action reference cycle"): write
# vmid = caller.vmid and uuid = caller.uuid there. Terraform 1.14 to 1.16 know no caller.
action "proxmox_vm_power" "restart" {
  config {
    vmid   = proxmox_vm.web.vmid
    uuid   = proxmox_vm.web.uuid # no other VM that gets the id
    action = "reboot"
  }
}

# terraform apply -invoke=action.proxmox_vm_power.save
action "proxmox_vm_power" "save" {
  config {
    vmid          = proxmox_vm.web.vmid
    uuid          = proxmox_vm.web.uuid
    action        = "suspend"
    to_disk       = true
    state_storage = "local-zfs"
    timeout       = "10m"
  }
}
