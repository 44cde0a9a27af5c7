;;; What somebody does in Emacs, and what they see: written as JSON where $SEEN says.  -*- lexical-binding: t -*-
(require 'eglot)
(require 'json)
(setq eglot-sync-connect 60 eglot-connect-timeout 60 create-lockfiles nil make-backup-files nil)

(defun wait-for (holds)
  (let ((last (+ (float-time) 60)))
    (while (not (funcall holds))
      (when (> (float-time) last) (error "nothing was seen"))
      (accept-process-output nil 0.05))))

(find-file (getenv "FILE"))
(call-interactively #'eglot) ; in batch mode no command runs the hook of `eglot-ensure'
(wait-for (lambda () (flymake-start) (flymake-diagnostics)))
(let ((found (car (flymake-diagnostics))))
  (goto-char (point-max))
  (insert "\n") ; what is not modified is not saved
  (save-buffer)
  (wait-for (lambda () (flymake-start) (not (flymake-diagnostics))))
  (with-temp-file (getenv "SEEN")
    (insert (json-encode `((line . ,(with-current-buffer (find-buffer-visiting (getenv "FILE")) 
                                      (flymake-diagnostic-beg found)))
                           (message . ,(flymake-diagnostic-text found)))))))
